"""The operator of share-partitions. Its grouping key is one shard of a topic in a group."""
