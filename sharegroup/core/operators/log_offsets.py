"""How far a topic partition's log reaches, as the source saw it."""

from __future__ import annotations

from typing import Any, NamedTuple


class LogOffsets(NamedTuple):
    """First offset, end (exclusive), last stable offset (None: nobody asked for it).

    `has_topic_id`: whether the broker gives topics ids. Without them a log that ends too early is all that tells that
    a topic was deleted and made again.
    `leader_epoch` is the leader's that answered, -1 if it is not known. `epoch_start` is the first offset that was
    written under leaders after the one that had answered before, None if nobody knows. It is below offsets that were
    there before only after an unclean leader election, which takes records away (KIP-101, KIP-320).
    """

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None = None
    has_topic_id: bool = True
    leader_epoch: int = -1
    epoch_start: int | None = None

    def dump(self) -> list[Any]:
        """Its fields for JSON, without the last two where nothing is known of leaders."""
        return list(self if self.leader_epoch >= 0 else self[:4])
