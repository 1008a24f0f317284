"""The durable state of share-partitions: snapshot and update records, their folding and fencing (KIP-932)."""
