"""The lines of the job's log, made from the rows of a group's batches, each logged once."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from sharegroup.config import parse_config
from sharegroup.core.operators import rows
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.protocol.rows.share_group_requests import (
    DeletedNotice,
    DeleteGroupRequest,
    HeartbeatRequest,
    InitializedNotice,
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
    ShareGroupRequest,
    TopicDeletedNotice,
    TopicMetadata,
)
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES
from tests.harness.memory_tables import MemoryTables
from tests.tables.job_clocks import job_clock
from tests.tables.job_tables import T0

GROUP = "billing"
ORDERS = {"orders": TopicMetadata("id-1", 3)}


class Nobody:
    """A handover writer and producer without a reader."""

    def write(self, content: object) -> None:
        """Discard a handover change."""

    def send(self, responses: object, requests: object) -> None:
        """Discard rows for Kafka."""


class Job:
    """One group's operator, and the batches of its query on tables in memory."""

    def __init__(self, tables: MemoryTables, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self._state: str | None = None
        self._bodies: list[str] = []
        self._batch_id, self._offset = -1, 0
        writers = [tables.writer(spec, "job") for spec in GROUP_COORDINATOR_TABLES]
        steps = CommitSteps(writers, Nobody())
        self._run = QueryRun("group_coordinator", steps, Nobody(), lambda: None, lambda: None, 100, job_clock())
        self._run.become_leader(1, None, lambda query_id: 0)
        steps.query_id = "query-1"

    def batch(self, *requests: ShareGroupRequest, tick_ms: int | None = None) -> list[str]:
        """Return the lines of a batch with these requests."""
        lines = [self._line(request) for request in requests]
        lines += [] if tick_ms is None else [rows.encode_row(rows.TICK, str(tick_ms))]
        group = ShareGroupOperator(GROUP, parse_config({}, "test"), self._state)
        self._bodies = [group.run(lines, T0).encode()]
        self._state = group.dump()
        self._batch_id += 1
        return self._finish()

    def batch_again(self) -> list[str]:
        """Return the lines of the last batch when a restarted job runs it again."""
        return self._finish()

    def _finish(self) -> list[str]:
        self._caplog.clear()
        self._run.finish_batch(self._batch_id, self._bodies)
        return list(self._caplog.messages)

    def _line(self, request: ShareGroupRequest) -> str:
        self._offset += 1
        return rows.encode_row(rows.REQUEST, f"0\t{self._offset}\t{T0}\t{request.encode().decode()}")


@pytest.fixture
def job(caplog: pytest.LogCaptureFixture) -> Job:
    return Job(MemoryTables(), caplog)


def heartbeat(epoch: int, member_id: str = "m1", topics: dict[str, TopicMetadata] | None = None) -> HeartbeatRequest:
    names = ("orders",) if epoch == 0 else None
    return HeartbeatRequest(
        f"{member_id}-{epoch}",
        GROUP,
        "me",
        member_id=member_id,
        member_epoch=epoch,
        client_id="till",
        client_host="10.0.0.7",
        subscribed_topic_names=names,
        topics=ORDERS if topics is None else topics,
    )


def initialized(*share_partitions: tuple[str, int, int]) -> InitializedNotice:
    return InitializedNotice("initialized", GROUP, initialized=share_partitions)


JOINED = "group billing: member m1 joined (till at 10.0.0.7), for orders"


def test_a_members_life_is_logged_once_per_event(job: Job) -> None:
    assert job.batch(heartbeat(0)) == [
        "group billing: initializing topic orders (id id-1), partitions 0-2",
        JOINED,
    ]
    assert job.batch_again() == []
    ready = ("id-1", 0, 2), ("id-1", 2, 2)
    assert job.batch(initialized(*ready)) == ["group billing: initialized topic orders (id id-1), partitions 0, 2"]
    assert job.batch(initialized(*ready, ("id-1", 1, 2))) == [
        "group billing: initialized topic orders (id id-1), partitions 1"
    ]
    assert job.batch(heartbeat(2), heartbeat(3)) == []
    assert job.batch(heartbeat(-1)) == [
        "group billing: member m1 left",
        "group billing is empty: its last member has left",
    ]
    assert job.batch(heartbeat(-1)) == []


def test_a_silent_member_times_out_and_one_with_a_wrong_epoch_is_fenced(job: Job) -> None:
    job.batch(heartbeat(0, topics={}), heartbeat(0, "m2", {}))
    assert job.batch(heartbeat(7, "m2")) == ["group billing: member m2 was fenced; it must join again"]
    assert job.batch(heartbeat(-1), tick_ms=T0 + 3_600_000) == [
        "group billing: member m1 left",
        "group billing: member m2 timed out",
        "group billing is empty: its last member has left",
    ]


def test_a_static_members_processes_and_who_is_removed(job: Job) -> None:
    def of(process: str, epoch: int) -> HeartbeatRequest:
        return dataclasses.replace(heartbeat(epoch), group_instance_id="worker", incarnation_id=process)

    job.batch(of("p1", 0))
    assert job.batch(of("p1", -2)) == ["group billing: static member m1 (group instance id worker) left for a restart"]
    assert job.batch(of("p2", 0)) == [
        "group billing: static member m1 (group instance id worker) continues in another process"
    ]
    told = "This process is no longer member m1: another process has joined as this member."
    assert job.batch(of("p1", 2)) == [f"group billing: a process of member m1 was fenced: {told}"]
    removed = RemoveMembersRequest("r", GROUP, "me", members=(MemberIdentity("", "worker"),))
    assert job.batch(removed) == [
        "group billing: member m1 was removed",
        "group billing is empty: its last member has left",
    ]
    job.batch(of("p3", 0))
    job.batch(of("p3", -2))
    assert job.batch(InvokeConsumerRebalanceRequest("i", GROUP, "me"))[0] == "group billing: member m1 was removed"


def test_a_member_that_joined_and_left_in_a_batch_is_logged_fully(job: Job) -> None:
    assert job.batch(heartbeat(0), heartbeat(-1))[1:] == [JOINED, "group billing: member m1 left"]


def test_topics_and_groups_that_go(job: Job) -> None:
    job.batch(heartbeat(0))
    forgets = "group billing: removing topic orders (id id-1), partitions 0-2"
    assert job.batch(TopicDeletedNotice("topic_deleted", GROUP, topic_ids=("id-1",))) == [forgets]
    deleted = tuple(("id-1", p, 2) for p in range(3))
    assert job.batch(DeletedNotice("deleted", GROUP, deleted=deleted)) == []
    assert job.batch(heartbeat(0, "m2", {"orders": TopicMetadata("id-2", 1)}))[0] == (
        "group billing: initializing topic orders (id id-2), partitions 0"
    )
    job.batch(heartbeat(-1), heartbeat(-1, "m2"))
    assert job.batch(DeleteGroupRequest("delete_group", GROUP, "me"))[-1] == "group billing is deleted"
