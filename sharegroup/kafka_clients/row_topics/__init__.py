"""The three topics of rows: create them, write requests, read responses."""
