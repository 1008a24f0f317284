"""The group configs that a share-partition uses."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SharePartitionConfig:
    """The group configs that one call of a handler uses. A changed value never affects existing locks.

    Attributes:
        delivery_count_limit: Maximum number of deliveries of a record (`share.delivery.count.limit`).
        record_lock_duration_ms: Duration of an acquisition lock in milliseconds (`share.record.lock.duration.ms`).
        max_record_locks: Maximum number of records from the start to the end offset. At this number, no new records
            are acquired (`share.partition.max.record.locks`).
        renew_enabled: Whether RENEW acknowledgements are allowed (`share.renew.acknowledge.enable`, KIP-1222).
        static_record_lock_duration_ms: Lock duration of static members, whose locks must outlast a restart. It applies
            if it is longer than `record_lock_duration_ms` (`share.static.record.lock.duration.ms`).
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000
    renew_enabled: bool = True
    static_record_lock_duration_ms: int = 300_000

    def for_member(self, is_static: bool) -> SharePartitionConfig:
        """Return the config for the requests of a member.

        The locks of a static member (KIP-345) last for the longer of the two lock durations.
        """
        if not is_static or self.static_record_lock_duration_ms <= self.record_lock_duration_ms:
            return self
        return replace(self, record_lock_duration_ms=self.static_record_lock_duration_ms)
