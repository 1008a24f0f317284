"""Heartbeats, fetches and acknowledgements of share group members."""
