"""Readers of the tables. A call reads the newest version, unless the caller passes a version or an opened table."""
