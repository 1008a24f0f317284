"""The offsets of a topic-partition's log, as the source read them."""

from typing import Any, NamedTuple


class PartitionLog(NamedTuple):
    """Start offset, end offset (exclusive) and last stable offset, which is None if it was not requested.

    `has_topic_id` is whether the broker assigns topic ids. Without them, only a log that ends too early shows that a
    topic was deleted and created again.

    `leader_epoch` is that of the leader that responded, -1 if unknown. `epoch_start` is the first offset that was
    written in leader epochs after the one that responded before, None if unknown. It is below known offsets only after
    an unclean leader election, which removes records (KIP-101, KIP-320).
    """

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None = None
    has_topic_id: bool = True
    leader_epoch: int = -1
    epoch_start: int | None = None

    def dump(self) -> list[Any]:
        """Return the fields for JSON, without the last two if the leader epoch is unknown."""
        return list(self if self.leader_epoch >= 0 else self[:4])
