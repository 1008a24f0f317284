"""Readers that follow a table and read only the files that changed."""
