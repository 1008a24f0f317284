"""The rules of share groups (KIP-932). Read this package first.

Everything here is pure: no Spark, no Kafka client, no clock, no randomness, no I/O. A handler (the method for one
kind of request) decides on changes and returns them. Only `replay` applies changes. After a restart, the state is
loaded or restored, and then changes only by replays again.

- `share_partition`: the records in flight of one share-partition.
- `share_coordinator`: the durable records of a share-partition.
- `group_coordinator`: groups, members and assignments.
- `operators`: the stateful operators of the job, which call these three packages with the rows of a micro-batch.
"""
