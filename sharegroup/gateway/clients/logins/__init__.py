"""SASL login of client connections."""
