"""The operator of groups, rows to whole outputs: join, initialization, assignment, expiry, recovery."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from sharegroup.config import Config, parse_config
from sharegroup.core.group_coordinator.target_assignment import INITIALIZING_MS
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_group.pending_heartbeats import PENDING_MS
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.share_group_requests import (
    AlterConfigsRequest,
    HeartbeatRequest,
    InitializedNotice,
    ShareGroupRequest,
    TopicDeletedNotice,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_partition_requests import FenceMemberRequest, decode_share_partition_request

GROUP = "g"
T0 = 1_700_000_000_000
SESSION_MS = 45_000
JOB = Config()
ORDERS = {"orders": TopicMetadata("id-orders", 2)}


class GroupDriver:
    """The operator of one group. Its state is text between batches, and outputs are encoded and decoded as JSON."""

    def __init__(self, job: Config = JOB) -> None:
        self.job = job
        self.state: str | None = None
        self._next_offset = 0

    def line(self, request: ShareGroupRequest | bytes, at: int) -> str:
        value = request if isinstance(request, bytes) else request.encode()
        self._next_offset += 1
        return rows.encode_row(rows.REQUEST, f"2\t{self._next_offset - 1}\t{T0 + at}\t{value.decode()}")

    def batch(self, *lines: str, at: int) -> Output:
        group = ShareGroupOperator(GROUP, self.job, self.state)
        output = group.run(lines, T0 + at)
        self.state = group.dump()
        return Output.decode(output.encode())

    def send(self, *requests: ShareGroupRequest | bytes, at: int) -> Output:
        return self.batch(*[self.line(request, at) for request in requests], at=at)


def heartbeat(
    request_id: str, epoch: int, member: str = "m1", topics: Mapping[str, TopicMetadata] | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(
        request_id,
        GROUP,
        "me",
        member_id=member,
        member_epoch=epoch,
        client_id="c",
        client_host="/10.0.0.1",
        subscribed_topic_names=None if topics is None else tuple(topics),
        topics=topics or {},
    )


def initialized(*partitions: int, epoch: int = 2) -> InitializedNotice:
    return InitializedNotice("i", GROUP, initialized=tuple(("id-orders", partition, epoch) for partition in partitions))


def tick(at: int) -> str:
    return rows.encode_row(rows.TICK, str(T0 + at))


def answered(
    request_id: str,
    epoch: int = -1,
    interval_ms: int = 0,
    assignment: dict[str, Any] | None = None,
    error: tuple[int, str | None] = (0, None),
    member: str = "m1",
    deadline: int | None = None,
) -> dict[str, Any]:
    """Return a response; `deadline` is the end of the member's session, relative to T0."""
    return {
        "type": "heartbeat",
        "id": request_id,
        "reply_to": "me",
        "group_id": GROUP,
        "member_id": member,
        "error_code": error[0],
        "error_message": error[1],
        "member_epoch": epoch,
        "heartbeat_interval_ms": interval_ms,
        "assignment": assignment,
        "subscribed_topic_names": ["orders"] if epoch >= 0 else None,
        "session_deadline_ms": -1 if deadline is None else T0 + deadline,
    }


def group_row(epoch: int, state: str = "Stable", assignment_epoch: int | None = None) -> dict[str, Any]:
    """Return a row; `assignment_epoch` is the group epoch unless a run of the assignor is pending."""
    assigned = epoch if assignment_epoch is None else assignment_epoch
    return {"group_id": GROUP, "group_epoch": epoch, "assignment_epoch": assigned, "group_state": state}


def member_row(epoch: int, partitions: list[int], member: str = "m1") -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "client_id": "c",
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": ["orders"],
        "assignment": [{"topic": "orders", "topic_id": "id-orders", "partitions": partitions}] if partitions else [],
        "group_instance_id": None,
        "incarnation_id": None,
        "joined_ms": None,
    }


def partition_row(partition: int, status: str) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "topic": "orders",
        "topic_id": "id-orders",
        "partition": partition,
        "status": status,
        "state_epoch": 2,
        "start_offset": -1,
        "auto_offset_reset": "latest",
    }


def member_left(epoch: int, member: str = "m1") -> dict[str, Any]:
    return {"type": "member_left", "reply_to": "*", "group_id": GROUP, "member_id": member, "member_epoch": epoch}


def with_assignment() -> GroupDriver:
    """m1 has both partitions since time 20, at epoch 3."""
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    group.send(initialized(0, 1), at=20)
    return group


def test_member_joins_and_gets_initialized_share_partitions() -> None:
    group = GroupDriver()
    joined = group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    assert joined == Output(
        GROUP,
        T0,
        tables={
            "share_groups": [group_row(2)],
            "share_group_members": [member_row(2, [])],
            "share_partitions": [partition_row(0, "initializing"), partition_row(1, "initializing")],
        },
        positions={2: 1},
        deadline_ms=T0 + PENDING_MS,
    )

    told = group.send(initialized(0, 1), at=10)
    assert told == Output(
        GROUP,
        T0 + 10,
        tables={
            "share_partitions": [partition_row(0, "initialized"), partition_row(1, "initialized")],
            "share_groups": [group_row(3, assignment_epoch=2), group_row(3)],
            "share_group_members": [member_row(3, [0, 1])],
        },
        responses=[answered("h1", 3, 5_000, {"orders": ["id-orders", [0, 1]]}, deadline=10 + SESSION_MS)],
        positions={2: 2},
        deadline_ms=T0 + 10 + SESSION_MS,
    )

    stays = group.send(heartbeat("h3", 3), at=5_000)
    assert (stays.tables, stays.responses) == ({}, [answered("h3", 3, 5_000, deadline=5_000 + SESSION_MS)])


def test_static_member_that_waits_is_answered_with_its_id() -> None:
    """Of two processes with one instance id, only the latest gets a response, once."""
    group = GroupDriver()
    for process in ("p1", "p2"):
        join = heartbeat(f"join-{process}", 0, "", ORDERS)
        named = dataclasses.replace(join, group_instance_id="worker", incarnation_id=process)
        assert group.send(named, at=0).responses == []
    told = group.send(initialized(0, 1), at=10)
    (response,) = told.responses
    (row,) = told.tables["share_group_members"]
    assert (response["id"], response["member_id"]) == ("join-p2", row["member_id"])
    assert (row["group_instance_id"], row["incarnation_id"]) == ("worker", "p2")
    assert response["assignment"] == {"orders": ["id-orders", [0, 1]]}
    assert told.requests == []
    later = dataclasses.replace(heartbeat("join-p3", 0, "", ORDERS), group_instance_id="worker", incarnation_id="p3")
    output = group.batch(group.line(later, at=20), at=25)
    assert [row["joined_ms"] for row in output.tables["share_group_members"]] == [T0 + 20]
    rows = [decode_share_partition_request(value) for _, value in output.requests]
    assert rows == [
        FenceMemberRequest(
            f"fence-{row['member_id']}-p3", GROUP, "orders", "id-orders", partition, row["member_id"],
            incarnation_id="p3", joined_ms=T0 + 20,
        )
        for partition in (0, 1)
    ]  # fmt: skip


def test_join_in_the_assignment_interval_is_answered_after_the_run() -> None:
    """A tick does this, without any request."""
    group = with_assignment()
    waits = group.send(heartbeat("h2", 0, "m2", topics=ORDERS), heartbeat("h3", 0, "m3", topics=ORDERS), at=420)
    assert waits.responses == []
    assert waits.tables["share_groups"] == [group_row(4, assignment_epoch=3), group_row(5, assignment_epoch=3)]
    assert waits.deadline_ms == T0 + 1_020
    early = group.batch(tick(1_019), at=1_019)
    assert (early.tables, early.responses, early.deadline_ms) == ({}, [], T0 + 1_020)
    ran = group.batch(tick(1_020), at=1_020)
    assert ran.tables == {
        "share_groups": [group_row(5)],
        "share_group_members": [member_row(5, [0], "m2"), member_row(5, [1], "m3")],
    }
    assert ran.responses == [
        answered("h2", 5, 5_000, {"orders": ["id-orders", [0]]}, member="m2", deadline=1_020 + SESSION_MS),
        answered("h3", 5, 5_000, {"orders": ["id-orders", [1]]}, member="m3", deadline=1_020 + SESSION_MS),
    ]
    assert ran.deadline_ms == T0 + 20 + SESSION_MS


def test_member_with_an_assignment_does_not_wait() -> None:
    group = with_assignment()
    group.send(heartbeat("h2", 0, "m2", topics=ORDERS), at=420)
    told = group.send(heartbeat("h3", 3), at=520)
    assert told.responses == [answered("h3", 3, 500, deadline=520 + SESSION_MS)]


def test_departed_members_records_are_released_before_the_assignor_runs() -> None:
    group = with_assignment()
    group.send(heartbeat("h2", 0, "m2", topics=ORDERS), at=30)
    group.batch(tick(1_020), at=1_020)
    left = group.send(heartbeat("h3", -1), at=1_030)
    assert len(left.requests) == 2
    assert left.tables["share_groups"] == [group_row(5, assignment_epoch=4)]
    assert left.deadline_ms == T0 + 2_020
    assert group.batch(tick(2_020), at=2_020).tables == {"share_groups": [group_row(5)]}
    told = group.send(heartbeat("h4", 4, "m2"), at=2_030)
    expected = {"orders": ["id-orders", [0, 1]]}
    assert told.responses == [answered("h4", 5, 5_000, expected, member="m2", deadline=2_030 + SESSION_MS)]


def test_a_group_that_chooses_another_assignor_has_it_in_the_same_batch() -> None:
    group = GroupDriver(parse_config({"group": {"group.share.assignors": "simple,all"}}, "test"))
    for member in ("m1", "m2"):
        group.send(heartbeat("h1", 0, member, topics=ORDERS), at=0)
    group.send(initialized(0, 1), at=20)
    chosen = AlterConfigsRequest("c1", GROUP, "me", configs={"share.assignor": "all"})
    altered = group.send(chosen, heartbeat("h2", 4), at=1_020)
    assert altered.tables["share_group_members"] == [member_row(5, [0, 1])]
    expected = {"orders": ["id-orders", [0, 1]]}
    told = group.send(heartbeat("h3", 4, "m2"), at=1_030)
    assert told.responses == [answered("h3", 5, 5_000, expected, member="m2", deadline=1_030 + SESSION_MS)]


def test_slow_initialization_is_answered_after_a_while() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    waits = group.send(initialized(0), at=10)
    assert (waits.responses, waits.deadline_ms) == ([], T0 + 10 + INITIALIZING_MS)
    ran = group.batch(tick(10 + INITIALIZING_MS), at=10 + INITIALIZING_MS)
    assert (ran.tables, ran.responses) == ({"share_groups": [group_row(3)]}, [])
    assert ran.deadline_ms == T0 + PENDING_MS
    assert group.batch(tick(PENDING_MS - 1), at=PENDING_MS - 1).responses == []
    told = group.batch(tick(PENDING_MS), at=PENDING_MS)
    assert told.responses == [answered("h1", 3, 200, {"orders": ["id-orders", [0]]}, deadline=PENDING_MS + SESSION_MS)]
    assert told.deadline_ms == T0 + PENDING_MS + SESSION_MS
    group.send(heartbeat("h2", 3), at=PENDING_MS + 10)
    told = group.send(initialized(1), at=PENDING_MS + 20)
    assert told.responses == [
        answered("h2", 4, 5_000, {"orders": ["id-orders", [0, 1]]}, deadline=PENDING_MS + 20 + SESSION_MS)
    ]


def test_second_heartbeat_replaces_the_pending_one() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), heartbeat("h2", 0, topics=ORDERS), at=0)
    told = group.send(initialized(0, 1), at=10)
    assert [response["id"] for response in told.responses] == ["h2"]


def unknown_member(request_id: str) -> dict[str, Any]:
    message = "Member m1 was removed from group g before its assignment was ready."
    return answered(request_id, error=(ErrorCode.UNKNOWN_MEMBER_ID, message))


def test_a_parked_heartbeat_is_answered_when_its_session_ends() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    told = group.batch(tick(SESSION_MS), at=SESSION_MS)
    assert told.responses == [unknown_member("h1")]
    assert group.send(initialized(0, 1), at=SESSION_MS + 10).responses == []


def test_a_member_that_left_while_it_waited_does_not_come_back() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    left = group.send(heartbeat("h2", -1), at=5)
    assert left.responses == [unknown_member("h1"), answered("h2", -1)]
    told = group.send(initialized(0, 1), at=10)
    assert (told.responses, told.deadline_ms) == ([], None)


def test_rejected_heartbeat_keeps_the_pending_one() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    refused = group.send(heartbeat("stranger", 7), at=5)
    assert refused.responses[0]["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
    assert [response["id"] for response in group.send(initialized(0, 1), at=10).responses] == ["h1"]


def test_a_probe_is_read_and_nothing_else() -> None:
    group = GroupDriver()
    assert group.send(PROBE.encode(), at=5) == Output(GROUP, T0 + 5, positions={2: 1})
    assert group.state is None


def test_a_repeated_notice_changes_nothing() -> None:
    group = with_assignment()
    output = group.send(initialized(0, 1), initialized(7), at=30)
    assert (output.tables, output.requests, output.responses) == ({}, [], [])


def test_a_member_that_leaves_is_released_everywhere() -> None:
    group = with_assignment()
    output = group.send(heartbeat("h3", -1), at=30)
    assert output.tables == {
        "share_group_members": [member_row(3, [0, 1]) | {"_deleted": True}],
        "share_groups": [group_row(4, "Empty", 3), group_row(4, "Empty")],
    }
    assert output.responses == [member_left(3), answered("h3", -1)]
    releases = [(key, decode_share_partition_request(value)) for key, value in output.requests]
    assert {(request.topic, request.topic_id) for _, request in releases} == {("orders", "id-orders")}
    assert [
        (key, request.type, request.member_id, request.member_epoch, request.reply_to) for key, request in releases
    ] == [
        ("g\tid-orders\t0", "release_member", "m1", 3, ""),
        ("g\tid-orders\t1", "release_member", "m1", 3, ""),
    ]
    assert output.deadline_ms is None


def test_a_member_that_leaves_and_joins_again_is_answered_in_the_batch_after_its_release() -> None:
    """The release is sent again if the job dies, and must then not follow the answer to the join."""
    group = with_assignment()
    left = group.send(heartbeat("h3", -1), heartbeat("h4", 0, topics=ORDERS), heartbeat("h5", -1), at=30)
    assert [response["id"] for response in left.responses if "id" in response] == ["h3"]
    assert (len(left.requests), left.positions, left.deadline_ms) == (2, {2: 5}, T0 + 30)
    joined = group.batch(tick(30), at=40)
    assert [response["id"] for response in joined.responses if "id" in response] == ["h4", "h5"]
    assert [decode_share_partition_request(value).member_epoch for _, value in joined.requests] == [5, 5]
    assert joined.deadline_ms is None


def test_sessions_end_by_ticks_only_and_after_the_requests_of_the_batch() -> None:
    group = with_assignment()
    late = 20 + SESSION_MS + 1
    assert group.send(heartbeat("other", 0, "m2", topics=ORDERS), at=late).requests == []
    group = with_assignment()
    in_time = group.batch(group.line(heartbeat("h3", 3), late), tick(late), at=late)
    assert (in_time.responses, in_time.requests) == ([answered("h3", 3, 5_000, deadline=late + SESSION_MS)], [])
    gone = group.batch(tick(late + SESSION_MS), at=late + SESSION_MS)
    assert gone.tables["share_groups"] == [group_row(4, "Empty", 3), group_row(4, "Empty")]
    assert (len(gone.requests), gone.responses) == (2, [member_left(3)])
    refused = group.send(heartbeat("h4", 3), at=late + SESSION_MS + 1)
    assert refused.responses[0]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_comes_back_from_its_tables() -> None:
    tables = {
        "share_groups": [group_row(3)],
        "share_group_members": [member_row(3, [0, 1])],
        "share_partitions": [partition_row(0, "initialized"), partition_row(1, "initialized")],
    }
    recovered = GroupDriver()
    output = recovered.batch(rows.encode_row(rows.LOAD, json.dumps(tables)), at=100)
    assert output == Output(GROUP, T0 + 100, deadline_ms=T0 + 100 + SESSION_MS)
    old = with_assignment()
    for group in (old, recovered):
        output = group.send(heartbeat("h3", 3), heartbeat("h4", 0, "m2", topics=ORDERS), at=2_000)
        assert output.tables["share_groups"] == [group_row(4)]
        assert output.tables["share_group_members"] == [member_row(4, [1], "m2")]
        assert output.responses == [
            answered("h3", 3, 5_000, deadline=2_000 + SESSION_MS),
            answered("h4", 4, 5_000, {"orders": ["id-orders", [1]]}, member="m2", deadline=2_000 + SESSION_MS),
        ]


def test_load_is_ignored_after_a_restore_from_the_checkpoint() -> None:
    group = with_assignment()
    before = json.loads(group.state or "")["group"]
    group.batch(rows.encode_row(rows.LOAD, json.dumps({"share_groups": [group_row(9)]})), at=30)
    assert json.loads(group.state or "")["group"] == before


def test_group_without_members_keeps_no_state() -> None:
    group = GroupDriver()
    output = group.batch(group.line(heartbeat("h1", 3), 0), tick(0), at=0)
    refused = (ErrorCode.GROUP_ID_NOT_FOUND, output.responses[0]["error_message"])
    assert output == Output(GROUP, T0, responses=[answered("h1", error=refused)], positions={2: 1})
    assert group.state is None


def test_bad_rows_are_rejected_with_their_coordinates() -> None:
    group = with_assignment()
    output = group.send(
        b"[]",
        b'{"id":"x","reply_to":"me","type":"heartbeat","group_id":"g","member_id":"m1","member_epoch":"?"}',
        at=30,
    )
    problem = "member_epoch must be an integer from -2147483647 to 2147483647"
    assert output == Output(
        GROUP,
        T0 + 30,
        responses=[answered("x", error=(ErrorCode.INVALID_REQUEST, problem))],
        rejected=[[2, 2, "the row is not a JSON object"], [2, 3, f"INVALID_REQUEST: {problem}"]],  # type: ignore[list-item]
        positions={2: 4},
        deadline_ms=T0 + 20 + SESSION_MS,
    )


@pytest.mark.parametrize("field", ["type", "group_id", "member_id"])
def test_no_answer_repeats_more_than_a_right_row_could_have(field: str) -> None:
    row = json.loads(heartbeat("h1", 0).encode()) | {field: "\U0001f600" * 100_000}
    output = GroupDriver().send(json.dumps(row).encode(), at=0)
    assert [(answer["id"], answer["error_code"]) for answer in output.responses] == [("h1", ErrorCode.INVALID_REQUEST)]
    assert len(output.encode()) < 30_000


@pytest.mark.parametrize("topics", [{"bad name": TopicMetadata("id", 1)}, {"orders": TopicMetadata("id", 1_000_000)}])
def test_illegal_topic_creates_no_share_partition(topics: dict[str, TopicMetadata]) -> None:
    output = GroupDriver().send(heartbeat("h1", 0, topics), at=0)
    assert [(answer["id"], answer["error_code"]) for answer in output.responses] == [("h1", ErrorCode.INVALID_REQUEST)]
    assert output.tables == {}


def topic_deleted(*topic_ids: str) -> TopicDeletedNotice:
    return TopicDeletedNotice("t", GROUP, topic_ids=topic_ids)


def test_deleted_topic_leaves_the_assignment_and_returns_as_another() -> None:
    group = with_assignment()
    gone = group.send(topic_deleted("id-orders"), at=2_030)
    assert gone == Output(
        GROUP,
        T0 + 2_030,
        tables={
            "share_partitions": [partition_row(0, "deleting"), partition_row(1, "deleting")],
            "share_groups": [group_row(4, assignment_epoch=3), group_row(4)],
        },
        positions={2: 3},
        deadline_ms=T0 + 20 + SESSION_MS,
    )
    again = group.send(topic_deleted("id-orders"), heartbeat("h3", 3, topics=ORDERS), at=2_040)
    assert again.tables == {"share_group_members": [member_row(4, [])]}
    assert again.responses == [answered("h3", 4, 5_000, {}, deadline=2_040 + SESSION_MS)]
    made = group.send(heartbeat("h4", 4, topics={"orders": TopicMetadata("id-again", 1)}), at=2_050)
    row = partition_row(0, "initializing") | {"topic_id": "id-again", "state_epoch": 5}
    assert (made.tables["share_partitions"], made.responses) == ([row], [])
    notice = InitializedNotice("i", GROUP, initialized=(("id-again", 0, 5),))
    told = group.send(notice, at=2_060)
    expected = {"orders": ["id-again", [0]]}
    assert told.responses == [answered("h4", 5, 5_000, expected, deadline=2_060 + SESSION_MS)]


def test_pending_heartbeat_is_answered_when_its_topic_is_deleted() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    told = group.send(topic_deleted("id-orders"), at=10)
    assert told.responses == [answered("h1", 3, 5_000, {}, deadline=10 + SESSION_MS)]


def test_state_of_another_version_is_rejected() -> None:
    group = with_assignment()
    state = json.loads(group.state or "")
    group.state = json.dumps(state | {"group": state["group"] | {"version": 99}})
    with pytest.raises(ValueError, match="remove that checkpoint"):
        group.batch(tick(30), at=30)
