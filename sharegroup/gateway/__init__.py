"""The gateway: Kafka's wire protocol in front of the job, so that unmodified share-group clients connect (KIP-932)."""
