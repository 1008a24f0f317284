"""KIP-932, "Examples with share-group state": what each operation of the table makes durable.

The KIP's WriteShareGroupState requests leave acquired records out. Here they are durable, too, so a record of this
project says more; without them it says what the KIP's table says: the start offset, -1 where it did not move, and the
records that an operation released or finished in front of it.
"""

from __future__ import annotations

from typing import Any

from sharegroup.core.operators.output import Output
from sharegroup.types import RecordState
from tests.unit.core.operators.shard_driver import LOCK_MS, ShardDriver, acknowledge, config, fetch, load, log, tick

ACCEPT, RELEASE = 1, 2
AVAILABLE, ACKNOWLEDGED = int(RecordState.AVAILABLE), int(RecordState.ACKNOWLEDGED)

Batch = tuple[int, int, int, int]


def written(output: Output) -> tuple[int, list[Batch]] | None:
    """(start offset, batches) of the update that a batch wrote, without what is acquired; None if that is nothing."""
    rows: list[dict[str, Any]] = output.tables.get("share_group_state", [])
    if not rows:
        return None
    (row,) = rows
    fields = "first_offset", "last_offset", "delivery_state", "delivery_count"
    batches = [
        (b[fields[0]], b[fields[1]], b[fields[2]], b[fields[3]])
        for b in row["state_batches"]
        if b["delivery_state"] != int(RecordState.ACQUIRED)
    ]
    return (row["start_offset"], batches) if batches or row["start_offset"] != -1 else None


def test_the_batched_case_with_successful_processing() -> None:
    shard = ShardDriver()
    started = shard.batch(config(), load(100, (0, 110)), at=0)
    assert written(started) == (100, [])
    assert written(shard.send(fetch("f", "1", 10), at=1)) is None
    assert written(shard.send(acknowledge("a", (100, 109, ACCEPT), member="1"), at=2)) == (110, [])


def test_a_messier_sequence_of_release_and_acknowledge() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(110, (0, 120)), at=0)
    assert written(shard.send(fetch("f1", "1", 3), at=0)) is None
    later = 10_000  # so that only consumer 1's first records are due when the table says so
    assert written(shard.send(fetch("f2", "2", 6), at=later)) is None
    assert written(shard.send(fetch("f3", "3", 1), at=later)) is None

    released = shard.send(acknowledge("r", (110, 110, RELEASE), member="1"), at=later)
    assert written(released) == (-1, [(110, 110, AVAILABLE, 1)])

    acknowledged = shard.send(acknowledge("a119", (119, 119, ACCEPT), member="3"), at=later)
    assert written(acknowledged) == (-1, [(119, 119, ACKNOWLEDGED, 1)])

    shard.batch(log(121), at=later)
    again = shard.send(fetch("f4", "1", 2), at=later)
    assert [response["acquired"] for response in again.responses] == [[[110, 110, 2], [120, 120, 1]]]
    assert written(again) is None

    timed_out = shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 1)
    assert written(timed_out) == (-1, [(111, 112, AVAILABLE, 1)])

    acknowledged = shard.send(acknowledge("a113", (113, 118, ACCEPT), member="2"), at=LOCK_MS + 2)
    assert written(acknowledged) == (-1, [(113, 118, ACKNOWLEDGED, 1)])

    second = shard.send(fetch("f5", "3", 2), at=LOCK_MS + 3)
    assert [response["acquired"] for response in second.responses] == [[[111, 112, 2]]]
    assert written(second) is None

    # The KIP's table acknowledges 110 without moving the start offset, which its own cumulative state does: to 111.
    assert written(shard.send(acknowledge("a110", (110, 110, ACCEPT), member="1"), at=LOCK_MS + 4)) == (111, [])
    assert written(shard.send(acknowledge("a111", (111, 112, ACCEPT), member="3"), at=LOCK_MS + 5)) == (120, [])
    assert shard.window() == [[120, 120, "ACQUIRED", 1, "1", later + LOCK_MS]]
