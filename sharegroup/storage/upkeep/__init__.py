"""Upkeep of the tables, in a separate process: it merges and deletes files."""
