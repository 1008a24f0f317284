"""The login of a connection."""
