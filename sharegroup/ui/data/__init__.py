"""Data for the page, read from tables and logs."""
