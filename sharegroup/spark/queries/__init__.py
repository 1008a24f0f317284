"""The two stateful queries and their Python sources."""
