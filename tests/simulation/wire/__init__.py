"""Simulated clients of a gateway that use Kafka's protocol."""
