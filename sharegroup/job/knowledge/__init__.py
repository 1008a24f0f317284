"""The state of the source between two micro-batches, and its offset."""
