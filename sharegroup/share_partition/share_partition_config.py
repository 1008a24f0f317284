"""The group's configuration as far as one share-partition needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SharePartitionConfig:
    """Values in force at the time of a call; a change acts on later calls only, never on locks already given.

    delivery_count_limit: deliveries of a record at most (`share.delivery.count.limit`).
    record_lock_duration_ms: length of an acquisition lock in milliseconds (`share.record.lock.duration.ms`).
    max_record_locks: records between start and end offset, from which on no new data is given out
    (`share.partition.max.record.locks`).
    renew_enabled: whether RENEW acknowledgements are allowed (`share.renew.acknowledge.enable`, KIP-1222).
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000
    renew_enabled: bool = True
