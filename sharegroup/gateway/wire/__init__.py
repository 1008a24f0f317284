"""Decoders for requests of Kafka's protocol, and encoders for large responses."""
