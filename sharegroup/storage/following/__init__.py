"""Readers that read the same tables repeatedly. Most of them fetch only the files that changed since the last read."""
