"""SASL mechanisms, and the credentials and tokens that they verify."""
