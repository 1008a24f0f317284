"""The handler loop: calls a function for each record, and acknowledges by what the function does."""
