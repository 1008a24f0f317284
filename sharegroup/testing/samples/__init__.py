"""Sample data."""
