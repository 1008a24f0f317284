"""Kafka's protocol as bytes: decoding of requests, and encoding of large responses."""
