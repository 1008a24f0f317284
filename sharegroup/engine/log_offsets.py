"""How far a topic partition's log reaches, as the source saw it."""

from __future__ import annotations

from typing import NamedTuple


class LogOffsets(NamedTuple):
    """First offset, end (exclusive), last stable offset (None: nobody asked for it).

    `has_topic_id`: whether the broker gives topics ids. Without them a log that ends too early is all that tells that
    a topic was deleted and made again.
    """

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None = None
    has_topic_id: bool = True
