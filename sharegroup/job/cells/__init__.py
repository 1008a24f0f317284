"""Cells, group moves between cells, and the offset mirror."""
