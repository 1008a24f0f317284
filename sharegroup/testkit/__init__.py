"""What tests, notebooks and the demo need beside the product: JARs, an embedded Kafka broker, a manual clock."""
