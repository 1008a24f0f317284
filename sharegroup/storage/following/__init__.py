"""Readers that read a table again and again. Each read only fetches the files that changed."""
