"""The key of the share_partition operator. It is one string, because several key columns would make a batch slower.

A share-partition belongs to shard `partition % shards` of its (group, topic id). Topic ids contain no tab, but a group
id may, so the key is split from the right. Rows that name no share-partition get the key `UNKEYED`.
"""

from typing import NamedTuple, Self

#: The key of rows that name no share-partition. Under this key, the operator handles renewals of gateway leases, and
#: rejects all other rows.
UNKEYED = ""


class ShardKey(NamedTuple):
    """The key of a shard: some partitions of one topic in one group."""

    group_id: str
    topic_id: str
    shard: int

    def encode(self) -> str:
        """Return the operator's key as one string."""
        return f"{self.group_id}\t{self.topic_id}\t{self.shard}"

    @classmethod
    def decode(cls, key: str) -> Self:
        group_id, topic_id, shard = key.rsplit("\t", 2)
        return cls(group_id, topic_id, int(shard))
