"""The share-partitions that the operator manages. The source has sent their states to the operator.

A *shard* is some partitions of one topic in one group, under one key of the operator.
"""

from collections.abc import Collection, Iterable

from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


class ManagedShards:
    """The *managed* share-partitions, whose states the source has sent to the operator. Stores their state epochs.

    `shards` is the number of shards for each topic of a group (`operator.shards`).
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._epochs: dict[SharePartitionKey, int] = {}
        self._of_shard: dict[str, set[SharePartitionKey]] = {}
        self._of_group: dict[str, set[str]] = {}

    def __contains__(self, key: SharePartitionKey) -> bool:
        return key in self._epochs

    def has_epoch_of(self, row: SharePartitionRow) -> bool:
        """Return whether the share-partition is managed with the state epoch in `row`, or with a later one."""
        return self._epochs.get(row.key, -1) >= row.state_epoch

    def add(self, row: SharePartitionRow) -> None:
        """Add a share-partition that was loaded."""
        shard_key = self.shard_key(row.key)
        self._epochs[row.key] = row.state_epoch
        self._of_shard.setdefault(shard_key, set()).add(row.key)
        self._of_group.setdefault(row.key.group_id, set()).add(shard_key)

    def remove(self, key: SharePartitionKey) -> bool:
        """Remove a share-partition that was unloaded; return whether it was managed."""
        if self._epochs.pop(key, None) is None:
            return False
        shard_key = self.shard_key(key)
        self._of_shard[shard_key].discard(key)
        if not self._of_shard[shard_key]:
            del self._of_shard[shard_key]
            self._of_group[key.group_id].discard(shard_key)
            if not self._of_group[key.group_id]:
                del self._of_group[key.group_id]
        return True

    def keys(self) -> Collection[SharePartitionKey]:
        return self._epochs.keys()

    def shard_keys(self) -> Collection[str]:
        """Return the operator keys that manage at least one share-partition."""
        return self._of_shard.keys()

    def shard_keys_of(self, group_id: str) -> Collection[str]:
        return self._of_group.get(group_id, ())

    def shard_key(self, key: SharePartitionKey) -> str:
        """Return the operator key of the share-partition's shard. The share-partition need not be managed."""
        return ShardKey(key.group_id, key.topic_id, key.partition % self._shards).encode()

    def by_shard(self, keys: Iterable[SharePartitionKey]) -> dict[str, list[SharePartitionKey]]:
        """Return {operator key: its share-partitions among `keys`, sorted}."""
        shards: dict[str, list[SharePartitionKey]] = {}
        for key in sorted(keys):
            shards.setdefault(self.shard_key(key), []).append(key)
        return shards
