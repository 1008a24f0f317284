"""Simulated clients of a gateway, which speak Kafka's protocol."""
