"""Cells (jobs side by side, each with its own groups and tables), group moves between them, and the offset mirror."""
