"""A group is altered to read_committed while two gateways hold reservations and no last stable offset is known."""

from __future__ import annotations

from tests.unit.core.operators.shard_driver import ShardDriver, config, configure, fetch, leases_over, load, reserve


def test_no_offset_beyond_the_log_is_acquired_while_the_last_stable_offset_is_unknown() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(10, (0, 10)), at=0)  # everything is finished; the log ends at 10
    shard.send(reserve("r1", gateway="gateway-1"), reserve("r2", gateway="gateway-2"), at=10)
    shard.send(configure(altered=20, isolation_level="read_committed"), at=20)
    shard.batch(leases_over("gateway-1"), at=10_100)  # gateway-1 has died
    output = shard.send(fetch("f1"), at=10_200)
    assert not any(row.get("acquired") for row in output.responses), "the log ends at 10: these records do not exist"
