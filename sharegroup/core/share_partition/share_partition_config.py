"""The group's configuration as far as one share-partition needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SharePartitionConfig:
    """Values in force at the time of a call; a change acts on later calls only, never on locks already given.

    delivery_count_limit: deliveries of a record at most (`share.delivery.count.limit`).
    record_lock_duration_ms: length of an acquisition lock in milliseconds (`share.record.lock.duration.ms`).
    max_record_locks: records between start and end offset, from which on no new data is given out
    (`share.partition.max.record.locks`).
    renew_enabled: whether RENEW acknowledgements are allowed (`share.renew.acknowledge.enable`, KIP-1222).
    static_record_lock_duration_ms: the same of a lock that is to outlast a restart of its member, where that is longer
    (`share.static.record.lock.duration.ms`).
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000
    renew_enabled: bool = True
    static_record_lock_duration_ms: int = 300_000

    def for_member(self, is_static: bool) -> SharePartitionConfig:
        """As it is for a request of a static member (KIP-345), or of a dynamic one."""
        if not is_static or self.static_record_lock_duration_ms <= self.record_lock_duration_ms:
            return self
        return replace(self, record_lock_duration_ms=self.static_record_lock_duration_ms)
