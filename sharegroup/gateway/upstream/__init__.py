"""The Kafka cluster behind the gateway."""
