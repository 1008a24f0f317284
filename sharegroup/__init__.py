"""Kafka share groups (KIP-932) as a PySpark Structured Streaming job, with the whole queue state in Delta tables."""

__version__ = "0.1.0"
