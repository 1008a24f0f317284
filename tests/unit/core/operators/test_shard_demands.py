"""Waiting fetches: one per member, even shares, and abandoned ones."""

from __future__ import annotations

from dataclasses import replace

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.demands import REQUEST_TIMEOUT_MS
from sharegroup.core.operators.share_partition.requesters import NOTIFY_INTERVAL_MS
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import WANTED
from sharegroup.types import WaitsFor

from .shard_driver import LOCK_MS, ShardDriver, acknowledge, answered, config, fetch, load, log, release, tick


def waiting(*requests: object) -> ShardDriver:
    """Return a shard with an empty share-partition where these fetches wait."""
    shard = ShardDriver()
    shard.batch(config(), load(), *[shard.line(request, 0) for request in requests], at=0)  # type: ignore[arg-type]
    return shard


def test_newer_fetch_replaces_the_members_waiting_one() -> None:
    shard = waiting(fetch("f1"))
    output = shard.send(fetch("f2", max_records=2), at=10)
    assert (output.responses, output.waiting) == ([answered("fetch", "f1")], True)
    output = shard.batch(log(10), at=20)
    assert output.responses == [answered("fetch", "f2", acquired=[[0, 1, 1]], until=20 + LOCK_MS)]


def test_the_same_fetch_once_more_changes_nothing() -> None:
    shard = waiting(fetch("f1"))
    assert shard.send(fetch("f1"), at=10).responses == []
    assert [response["id"] for response in shard.batch(log(10), at=20).responses] == ["f1"]


def test_two_gateways_may_number_their_fetches_alike() -> None:
    shard = waiting(replace(fetch("f1"), reply_to="a"))
    output = shard.send(replace(fetch("f1"), reply_to="b"), at=10)
    assert [(response["reply_to"], response["acquired"]) for response in output.responses] == [("a", [])]
    output = shard.batch(log(2), at=20)
    assert [(response["reply_to"], response["acquired"]) for response in output.responses] == [("b", [[0, 1, 1]])]


def test_fetch_for_no_records_cancels_the_waiting_one_of_its_gateway() -> None:
    requests = [fetch("f1"), fetch("f2", "m2"), fetch("f3")]
    shard = waiting(*(replace(request, reply_to=gateway) for request, gateway in zip(requests, "aab", strict=True)))
    output = shard.send(replace(fetch("f4", max_records=0), reply_to="a"), at=10)
    assert [(response["id"], response["acquired"]) for response in output.responses] == [("f4", [])]
    output = shard.send(replace(fetch("f5", "m2", max_records=0), reply_to="a"), at=20)
    assert [(response["id"], response["acquired"]) for response in output.responses] == [("f2", []), ("f5", [])]
    assert [response["id"] for response in shard.batch(log(10), at=30).responses] == ["f3"]


def test_fetch_gets_records_up_to_the_known_end_of_the_log() -> None:
    shard = waiting(fetch("f1", max_records=10))
    output = shard.batch(log(8), at=10)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 7, 1]], until=10 + LOCK_MS)]
    output = shard.batch(log(10), shard.line(fetch("f2", max_records=10), 20), at=20)
    assert output.responses == [answered("fetch", "f2", acquired=[[8, 9, 1]], until=20 + LOCK_MS)]


def test_new_records_are_shared_evenly_among_demands() -> None:
    shard = waiting(fetch("f1", "m1", 100), fetch("f2", "m2", 2), fetch("f3", "m3", 100))
    output = shard.batch(log(10), at=5)
    assert [(response["id"], response["acquired"]) for response in output.responses] == [
        ("f1", [[0, 3, 1]]),
        ("f2", [[4, 5, 1]]),
        ("f3", [[6, 9, 1]]),
    ]


def test_with_too_few_records_the_first_come_are_served() -> None:
    shard = waiting(fetch("f1", "m1"), fetch("f2", "m2"), fetch("f3", "m3"))
    output = shard.batch(log(2), at=5)
    assert [response["id"] for response in output.responses] == ["f1", "f2"]
    assert output.waiting
    assert [response["id"] for response in shard.batch(log(3), at=6).responses] == ["f3"]


def test_the_demand_of_a_member_that_is_released_is_answered_with_nothing() -> None:
    shard = waiting(fetch("f1", "m1"), fetch("f2", "m2"))
    output = shard.send(release("r1", "m1", epoch=3), at=5)
    assert output.responses == [answered("fetch", "f1"), answered("release_member", "r1")]
    assert output.waiting
    assert [response["id"] for response in shard.batch(log(10), at=6).responses] == ["f2"]


def test_released_records_serve_waiting_fetches_in_the_same_batch() -> None:
    shard = waiting(fetch("f1", "m1"))
    shard.batch(log(4), at=1)
    shard.send(fetch("f2", "m2"), at=2)
    output = shard.send(acknowledge("a1", (0, 1, 2), member="m1"), at=3)
    assert output.responses == [
        answered("acknowledge", "a1"),
        answered("fetch", "f2", "m2", [[0, 1, 2]], until=3 + LOCK_MS),
    ]
    shard.send(fetch("f3", "m2"), at=4)
    assert shard.send(release("r1", "m1"), at=5).responses == [
        answered("release_member", "r1"),
        answered("fetch", "f3", "m2", [[2, 3, 2]], until=5 + LOCK_MS),
    ]


def test_expired_records_serve_waiting_fetches_in_the_same_batch() -> None:
    shard = waiting(fetch("f1", "m1"))
    shard.batch(log(4), at=0)
    shard.send(fetch("f2", "m2", max_wait_ms=60_000), at=2)
    output = shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 2)
    assert output.responses == [answered("fetch", "f2", "m2", [[0, 3, 2]], until=2 * LOCK_MS + 2)]


def test_the_limit_on_record_locks_holds_all_members_together() -> None:
    shard = ShardDriver()
    shard.batch(config(partition_max_record_locks=6), load(0, (0, 100)), at=0)
    output = shard.send(fetch("f1", "m1", 100), fetch("f2", "m2", 100), fetch("f3", "m3", 100, 0), at=0)
    assert [(response["id"], response["acquired"]) for response in output.responses] == [
        ("f1", [[0, 1, 1]]),
        ("f2", [[2, 3, 1]]),
        ("f3", [[4, 5, 1]]),
    ]
    output = shard.send(fetch("f4", "m4", 100, 0), acknowledge("a1", (0, 1, 1)), at=1)
    assert [response["acquired"] for response in output.responses] == [[], [[6, 7, 1]]]


def test_output_reports_what_fetches_wait_for() -> None:
    shard = ShardDriver()
    assert shard.batch(config(partition_max_record_locks=6), load(0, (0, 6)), at=0).waiting == WaitsFor.NOTHING
    assert shard.send(fetch("f1", "m1", 100), fetch("f2", "m2", 100), at=0).waiting == WaitsFor.NOTHING
    assert shard.send(fetch("f3", "m1", 100), at=0).waiting == WaitsFor.RECORDS
    assert shard.batch(log(7), at=0).waiting == WaitsFor.ROOM
    assert shard.send(acknowledge("a1", (0, 2, 1)), at=1).waiting == WaitsFor.NOTHING


def test_abandoned_fetch_acquires_nothing() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), at=0)
    late = 5_000 + REQUEST_TIMEOUT_MS
    output = shard.batch(shard.line(fetch("f1", max_wait_ms=5_000), 0), at=late + 1)
    assert (output.responses, output.tables) == ([answered("fetch", "f1")], {})
    output = shard.batch(shard.line(fetch("f2", max_wait_ms=5_000), 1), at=late + 1)
    assert output.responses[0]["acquired"] == [[0, 9, 1]]


def test_a_demand_that_stood_while_the_job_was_down_acquires_nothing() -> None:
    shard = waiting(fetch("f1"))
    output = shard.batch(log(10), at=3_600_000)
    assert (output.responses, output.tables, output.waiting) == ([answered("fetch", "f1")], {}, False)


# -- several gateways --------------------------------------------------------------------------------------------------


def through(gateway: str, request_id: str, member: str, max_records: int = 10) -> SharePartitionRequest:
    """Return a fetch of a gateway's member."""
    return replace(fetch(request_id, member, max_records), reply_to=gateway)


def notified(output: Output) -> list[str]:
    """Return the receivers of the notice that others wait."""
    return [response["reply_to"] for response in output.responses if response["type"] == WANTED]


def test_gateway_is_notified_that_members_of_other_gateways_wait() -> None:
    shard = waiting(through("a", "f1", "m1"))
    assert notified(shard.batch(log(4), at=1)) == []
    output = shard.send(through("b", "f1", "m2"), at=2)
    assert output.responses == [answered(WANTED, "", "") | {"reply_to": "a"}]
    assert notified(shard.send(through("b", "f2", "m2"), at=3)) == []  # not again within the interval
    assert notified(shard.send(through("b", "f3", "m2"), at=2 + NOTIFY_INTERVAL_MS)) == ["a"]


def test_only_gateways_with_records_and_no_demand_are_notified() -> None:
    shard = waiting(through("a", "f1", "m1"))
    shard.batch(log(4), at=1)
    assert notified(shard.send(through("a", "f2", "m2"), at=2)) == []
    shard.send(acknowledge("a1", (0, 3, 1)), release("r1", "m2"), at=3)
    assert notified(shard.send(through("b", "f1", "m3"), at=4)) == []


def test_direct_member_is_not_notified() -> None:
    shard = waiting(through("m1", "f1", "m1"))
    shard.batch(log(4), at=1)
    assert notified(shard.send(through("b", "f1", "m2"), at=2)) == []
