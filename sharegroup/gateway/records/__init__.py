"""Records for clients: reading, caching, and slicing of record batches."""
