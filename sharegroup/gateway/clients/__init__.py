"""Connections of clients: reading requests from bytes, handling them in order, and writing responses."""
