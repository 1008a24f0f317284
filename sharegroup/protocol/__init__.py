"""What travels: the rows of the three Kafka topics that join members and gateways to the job."""
