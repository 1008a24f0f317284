"""Rows to and from the job's three topics, and the Kafka clients that carry them."""
