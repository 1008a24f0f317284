"""The Kafka cluster for which the gateway serves share groups: metadata, configs and connections."""
