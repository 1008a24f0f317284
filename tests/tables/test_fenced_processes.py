"""A job that recovers from the tables rejects processes that were replaced by others (KIP-345)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharegroup.config import parse_config
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from tests.tables.two_queries import GROUP, TOPIC_ID, TwoQueries

EARLIEST = parse_config({"groups": {GROUP: {"share.auto.offset.reset": "earliest"}}}, "test")


def join(process: str, member: str = "m1") -> HeartbeatRequest:
    topics = {"orders": TopicMetadata(TOPIC_ID, 2)}
    return HeartbeatRequest(
        f"join-{process}", GROUP, "me", member_id=member, member_epoch=0, subscribed_topic_names=("orders",),
        topics=topics, incarnation_id=process,
    )  # fmt: skip


def fetch(process: str) -> FetchRequest:
    named = f"fetch-{process}", GROUP, "orders", TOPIC_ID, 0, "m1", -1, "me"
    return FetchRequest(*named, incarnation_id=process, max_records=1)


def answers(job: TwoQueries) -> list[Any]:
    responses = job.partitions(fetch("p1"), fetch("p2"))
    return [(row["id"], row["error_code"], row["acquired"]) for row in responses]


def test_a_replaced_process_is_rejected_after_a_start_without_checkpoints(tmp_path: Path) -> None:
    job = TwoQueries(tmp_path, EARLIEST)
    job.groups(join("p1"))
    job.partitions()
    job.groups()
    job.groups(join("p2"))
    assert answers(job) == [("fetch-p1", ErrorCode.FENCED_INSTANCE_ID, []), ("fetch-p2", ErrorCode.NONE, [[0, 0, 1]])]
    job.groups(join("p1", "m2"))  # the commit that still contains the fence of p2 is not the newest one
    job.lose_checkpoint()
    assert answers(job) == [("fetch-p1", ErrorCode.FENCED_INSTANCE_ID, []), ("fetch-p2", ErrorCode.NONE, [[1, 1, 1]])]
