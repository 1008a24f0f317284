"""The operator's key: one string, because per-column work dominates a narrow batch.

A share-partition belongs to shard `partition % shards` of its (group, topic id). Topic ids have no tab; a group id may,
so the key is split from the right. Rows that name no share-partition get the key of `UNKEYED`.
"""

from __future__ import annotations

from typing import NamedTuple

#: Rows that nobody can be found for: they are rejected with their Kafka coordinates.
UNKEYED = ""


class ShardKey(NamedTuple):
    """A (group, topic id, shard)."""

    group_id: str
    topic_id: str
    shard: int

    def encode(self) -> str:
        """The key as the operator has it: one string."""
        return f"{self.group_id}\t{self.topic_id}\t{self.shard}"

    @classmethod
    def decode(cls, key: str) -> ShardKey:
        """The inverse of `encode`."""
        group_id, topic_id, shard = key.rsplit("\t", 2)
        return cls(group_id, topic_id, int(shard))
