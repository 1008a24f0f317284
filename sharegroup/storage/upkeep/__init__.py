"""Upkeep of the tables, in a separate process: merges small files, and deletes old rows, files and log entries."""
