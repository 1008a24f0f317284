"""Readers that follow a table: they read only the files that changed."""
