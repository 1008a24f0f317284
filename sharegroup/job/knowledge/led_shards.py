"""What the operator's shards lead, by what the source has said so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


class LedShards:
    """The led share-partitions and their state epochs; `shards` is how many operator keys a group's topic has."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._epochs: dict[SharePartitionKey, int] = {}
        self._of_shard: dict[str, set[SharePartitionKey]] = {}
        self._of_group: dict[str, set[str]] = {}

    def __contains__(self, key: SharePartitionKey) -> bool:
        return key in self._epochs

    def has(self, row: SharePartitionRow) -> bool:
        """Whether the share-partition is led, at the state epoch of its row."""
        return self._epochs.get(row.key, -1) >= row.state_epoch

    def lead(self, row: SharePartitionRow) -> None:
        """It was loaded."""
        shard_key = self.shard_key(row.key)
        self._epochs[row.key] = row.state_epoch
        self._of_shard.setdefault(shard_key, set()).add(row.key)
        self._of_group.setdefault(row.key.group_id, set()).add(shard_key)

    def leave(self, key: SharePartitionKey) -> bool:
        """It was unloaded; whether it was led."""
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
        """All that are led."""
        return self._epochs.keys()

    def shard_keys(self) -> Collection[str]:
        """The operator keys that lead something."""
        return self._of_shard.keys()

    def shard_keys_of(self, group_id: str) -> Collection[str]:
        """Those of one group."""
        return self._of_group.get(group_id, ())

    def shard_key(self, key: SharePartitionKey) -> str:
        """The operator key that is to lead the share-partition."""
        return ShardKey(key.group_id, key.topic_id, key.partition % self.shards).encode()

    def by_shard(self, keys: Iterable[SharePartitionKey]) -> dict[str, list[SharePartitionKey]]:
        """These share-partitions by operator key, in order."""
        shards: dict[str, list[SharePartitionKey]] = {}
        for key in sorted(keys):
            shards.setdefault(self.shard_key(key), []).append(key)
        return shards
