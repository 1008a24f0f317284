"""Upkeep of the tables: merges and deletes files, in a separate process."""
