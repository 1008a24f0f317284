"""Readers of the tables. Each call reads the newest version."""
