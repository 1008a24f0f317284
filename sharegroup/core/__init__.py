"""The rules of share groups (KIP-932). Read this package first.

Everything here is pure: no Spark, no Kafka client, no clock, no randomness, no I/O. A handler returns the changes that
it decided, and only `replay` applies them. A restart is therefore a replay.

- `share_partition`: the records in flight of one share-partition.
- `share_coordinator`: the durable records of a share-partition.
- `group_coordinator`: groups, members and assignments.
- `operators`: the stateful operators of the job, which call these three packages with the rows of a micro-batch.
"""
