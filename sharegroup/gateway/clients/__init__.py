"""Clients' connections: from bytes to a request, and back."""
