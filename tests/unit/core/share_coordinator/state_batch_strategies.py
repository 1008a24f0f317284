"""Hypothesis strategies and builders for state batches."""

from __future__ import annotations

from hypothesis import strategies as st

from sharegroup.types import RecordState, StateBatch

MAX_OFFSET = 30
KAFKA_STATES = (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


def available(first: int, last: int, count: int = 1) -> StateBatch:
    return StateBatch(first, last, RecordState.AVAILABLE, count)


def acquired(first: int, last: int, count: int = 1, member: str = "m1", deadline_ms: int = 30_000) -> StateBatch:
    """Return an ACQUIRED batch with its holder."""
    return StateBatch(first, last, RecordState.ACQUIRED, count, member, deadline_ms)


def acknowledged(first: int, last: int, count: int = 1) -> StateBatch:
    return StateBatch(first, last, RecordState.ACKNOWLEDGED, count)


@st.composite
def kafka_batches(draw: st.DrawFn) -> StateBatch:
    """Draw a batch that Kafka's coordinator can receive."""
    first = draw(st.integers(0, MAX_OFFSET))
    last = draw(st.integers(first, MAX_OFFSET))
    return StateBatch(first, last, draw(st.sampled_from(KAFKA_STATES)), draw(st.integers(0, 4)))


@st.composite
def our_batches(draw: st.DrawFn) -> StateBatch:
    """Draw a batch of this project's records, which may be ACQUIRED with holder and deadline."""
    batch = draw(kafka_batches())
    if not draw(st.booleans()):
        return batch
    member = draw(st.sampled_from(["m1", "m2"]))
    deadline_ms = draw(st.sampled_from([10, 20]))
    return acquired(batch.first_offset, batch.last_offset, batch.delivery_count, member, deadline_ms)


def per_offset(batches: tuple[StateBatch, ...] | list[StateBatch]) -> dict[int, tuple[object, ...]]:
    """Return the state of each offset by the naive model: the newest batch wins."""
    return {offset: batch[2:] for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)}
