"""The page of `sharegroup ui`: groups, windows, records and dead ends, in a browser (docs/ui.md)."""
