"""The web page of `sharegroup ui`: groups, windows, records and dead ends (docs/ui.md)."""
