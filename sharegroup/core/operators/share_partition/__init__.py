"""The operator of share-partitions: one key is one shard of a topic in a group."""
