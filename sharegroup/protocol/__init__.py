"""Protocols: the rows of the three Kafka topics between members, gateways and the job, and Kafka's wire messages."""
