"""The rows of the three Kafka topics that members, gateways and the job exchange, and messages of Kafka's protocol."""
