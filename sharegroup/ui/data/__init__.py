"""Data of the page, read from tables and logs."""
