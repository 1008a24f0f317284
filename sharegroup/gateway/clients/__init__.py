"""Client connections: read and decode requests, handle them in order, and write the responses."""
