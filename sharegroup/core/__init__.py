"""The rules of share groups. Read this first.

PURE: no Spark, no Kafka client, no clock, no randomness, no I/O. A handler returns what is to change and only
`replay` changes it, so a restart is a replay.

`share_partition`: the window of records in flight. `share_coordinator`: its durable records. `group_coordinator`:
groups, members and assignments. `operators`: these three behind the rows of a micro-batch.
"""
