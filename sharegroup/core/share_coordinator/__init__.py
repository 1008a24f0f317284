"""The durable state of share-partitions: snapshot and update records, folding and fencing (KIP-932)."""
