"""The rows of the request, response and group topics."""
