"""A shard that is dumped and restored after every batch behaves like one that is not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from .shard_driver import ShardDriver
from .shard_strategies import LOG_AND_LOADS, STANDING, Batch, Script, batches


@settings(max_examples=25, deadline=None)
@given(batches(st.one_of(STANDING, STANDING, STANDING, LOG_AND_LOADS)), st.integers(2, 6))
def test_restarts_between_batches_change_nothing(scripted: list[Batch], limit: int) -> None:
    script = Script()
    spark, continuous = ShardDriver(restarts=True), ShardDriver(restarts=False)
    first = script.first(delivery_count_limit=limit)
    assert spark.batch(*first, at=0) == continuous.batch(*first, at=0)
    for batch in scripted:
        lines = script.rows(batch)
        assert spark.batch(*lines, at=script.now) == continuous.batch(*lines, at=script.now)
        assert spark.state == continuous.state
