"""Cells, and groups that move between them; the offset mirror."""
