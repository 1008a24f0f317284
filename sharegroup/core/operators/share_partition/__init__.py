"""The operator of share-partitions; a key is one shard of a topic in a group."""
