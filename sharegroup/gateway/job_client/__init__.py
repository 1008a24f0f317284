"""The gateway's client of the job. It appends request rows to Kafka topics, and reads response rows."""
