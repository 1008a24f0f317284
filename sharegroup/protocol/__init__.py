"""The rows that members, gateways and the job exchange over three Kafka topics, and messages of Kafka's protocol."""
