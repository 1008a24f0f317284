"""The operator of the share_partition query. Its grouping key is a shard: several partitions of a topic in a group."""
