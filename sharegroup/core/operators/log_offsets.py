"""The offsets of a topic-partition's log, as the source of the streaming query read them from the broker."""

from typing import Any, NamedTuple


class PartitionLog(NamedTuple):
    """The offsets of a partition's log, and the leader epoch of the broker that returned the offsets.

    Attributes:
        log_start_offset: The first offset.
        log_end_offset: The end offset, exclusive.
        last_stable_offset: The last stable offset, or None if it was not requested.
        has_topic_id: Whether the broker assigns topic ids. Without topic ids, the job detects that a topic was deleted
            and created again only if its log ends below known offsets.
        leader_epoch: The epoch of the partition leader that responded, or -1 if unknown.
        epoch_start: The first offset that was written by a leader elected after the source's previous read, or None if
            unknown. If it is below the end offset of the previous read, an unclean leader election has removed records
            (KIP-101, KIP-320).
    """

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None = None
    has_topic_id: bool = True
    leader_epoch: int = -1
    epoch_start: int | None = None

    def dump(self) -> list[Any]:
        """Return the fields as a list for JSON. If the leader epoch is unknown, the last two fields are left out."""
        return list(self if self.leader_epoch >= 0 else self[:4])
