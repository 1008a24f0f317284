"""Kafka's protocol as bytes: frames, headers, requests."""
