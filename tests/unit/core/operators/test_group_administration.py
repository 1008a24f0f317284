"""Administrators' requests through the operator of a group: rows of the tables, configs in force, deleted groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sharegroup.config import parse_config
from sharegroup.core.operators import rows
from sharegroup.core.operators.share_group.share_group_operator import DELETED_GROUP_MS
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeletedNotice,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_partition_requests import decode_share_partition_request

from .test_share_group_operator import (
    GROUP,
    JOB,
    ORDERS,
    SESSION_MS,
    T0,
    GroupDriver,
    group_row,
    heartbeat,
    initialized,
    partition_row,
    tick,
    with_assignment,
)

SESSION, HEARTBEAT = "share.session.timeout.ms", "share.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"


NAMED = ("x", GROUP, "me")


def altered_configs(configs: Mapping[str, str | None], validate_only: bool = False) -> AlterConfigsRequest:
    return AlterConfigsRequest(*NAMED, configs=configs, validate_only=validate_only)


def deleted(*partitions: int) -> DeletedNotice:
    return DeletedNotice("d", GROUP, deleted=tuple(("id-orders", partition, 2) for partition in partitions))


def left() -> GroupDriver:
    """Return a group without members since time 30, at group epoch 4."""
    group = with_assignment()
    group.send(heartbeat("h3", -1), at=30)
    return group


def config_row(name: str, value: str | None) -> dict[str, Any]:
    row = {
        "group_id": GROUP, "config_name": name, "config_value": value, "config_source": "DYNAMIC_GROUP_CONFIG"
    }  # fmt: skip
    return row if value is not None else row | {"_deleted": True}


def last(altered: int) -> dict[str, object]:
    """Return the row with the time of the last request that altered the group's configs."""
    named = {"config_name": "", "config_value": str(T0 + altered), "config_source": "LAST_ALTERED"}
    return {"group_id": GROUP, **named}


def test_offsets_are_altered() -> None:
    group = left()
    output = group.send(AlterOffsetsRequest(*NAMED, offsets=(StartOffset("orders", 1, 17),), topics=ORDERS), at=40)
    assert output.tables == {
        "share_groups": [group_row(5, "Empty", 4), group_row(5, "Empty")],
        "share_partitions": [
            partition_row(1, "initializing") | {"state_epoch": 5, "start_offset": 17, "auto_offset_reset": None}
        ],
    }
    (response,) = output.responses
    assert (response["error_code"], response["partition_errors"]) == (0, [["orders", 1, 0, None]])


def test_offsets_are_deleted() -> None:
    group = left()
    output = group.send(DeleteOffsetsRequest(*NAMED, topic_names=("orders", "bills")), at=40)
    assert output.tables == {"share_partitions": [partition_row(p, "deleting") for p in (0, 1)]}
    (response,) = output.responses
    assert [error[:2] for error in response["topic_errors"]] == [["orders", 0], ["bills", 3]]
    output = group.send(deleted(0, 1), at=50)
    gone = [partition_row(p, "deleting") | {"_deleted": True} for p in (0, 1)]
    assert (output.tables, output.responses) == ({"share_partitions": gone}, [])


def test_a_group_is_deleted_and_its_epochs_are_remembered_for_a_while() -> None:
    group = left()
    dead = group.send(DeleteGroupRequest(*NAMED), at=40)
    assert dead.tables["share_groups"] == [group_row(4, "Dead")]
    assert dead.deadline_ms is None
    gone = group.send(deleted(0, 1), at=50)
    assert gone.tables["share_groups"] == [group_row(4, "Dead") | {"_deleted": True}]
    assert gone.deadline_ms == T0 + 50 + DELETED_GROUP_MS
    group.batch(tick(40 + DELETED_GROUP_MS), at=60)
    assert group.state is not None
    group.batch(tick(60 + DELETED_GROUP_MS), at=60 + DELETED_GROUP_MS)
    assert group.state is None
    joined = group.send(heartbeat("h4", 0, topics=ORDERS), at=70 + DELETED_GROUP_MS)
    assert joined.tables["share_groups"] == [group_row(2)]


def test_a_group_that_is_created_again_soon_continues_its_epochs() -> None:
    group = left()
    group.send(DeleteGroupRequest(*NAMED), at=40)
    group.send(deleted(0, 1), at=50)
    joined = group.send(heartbeat("h4", 0, topics=ORDERS), at=60)
    assert joined.tables["share_groups"] == [group_row(5)]


def test_configs_are_in_force_from_the_next_request_on() -> None:
    group = with_assignment()
    configs = {SESSION: "60000", HEARTBEAT: "7000"}
    output = group.send(altered_configs(configs), heartbeat("h3", 3), at=30)
    assert output.tables == {
        "share_group_configs": [config_row(HEARTBEAT, "7000"), config_row(SESSION, "60000"), last(30)]
    }
    assert [response.get("heartbeat_interval_ms") for response in output.responses] == [None, 7_000]
    assert output.deadline_ms == T0 + 30 + 60_000
    output = group.send(altered_configs({HEARTBEAT: None}), heartbeat("h4", 3), at=40)
    assert output.tables == {"share_group_configs": [config_row(HEARTBEAT, None), last(40)]}
    assert output.responses[1]["heartbeat_interval_ms"] == 5_000
    refused = group.send(altered_configs({SESSION: "1"}), at=50)
    assert (refused.tables, refused.responses[0]["error_code"]) == ({}, ErrorCode.INVALID_CONFIG)


def test_config_reaches_share_partitions_before_the_response() -> None:
    group = GroupDriver()
    group.send(heartbeat("h1", 0, topics=ORDERS), at=0)
    group.send(initialized(0), at=10)
    bills = {"bills": TopicMetadata("id-bills", 1)}
    altered = altered_configs({RESET: "earliest"})
    output = group.send(altered, heartbeat("h2", 0, "m2", topics=bills), at=20)
    anew = partition_row(1, "initializing") | {"state_epoch": 3, "auto_offset_reset": "earliest"}
    new = partition_row(0, "initializing") | {"topic": "bills", "topic_id": "id-bills", "state_epoch": 4}
    assert output.tables["share_partitions"] == [anew, new | {"auto_offset_reset": "earliest"}]
    config = JOB.effective_group_config(GROUP, {RESET: "earliest"}).config.to_json()
    assert [(key, json.loads(value)) for key, value in output.requests] == [
        (
            f"g\tid-orders\t{partition}",
            {
                "type": "configure",
                "id": "configure-x",
                "group_id": GROUP,
                "topic": "orders",
                "topic_id": "id-orders",
                "partition": partition,
                "member_id": "",
                "member_epoch": -1,
                "reply_to": "",
                "config": config,
                "altered_ms": T0 + 20,
            },
        )
        for partition in (0, 1)
    ]
    assert [decode_share_partition_request(value).config for _, value in output.requests] == [config] * 2
    for unchanged in (altered, altered_configs({RESET: "latest"}, validate_only=True)):
        output = group.send(unchanged, at=30)
        assert (output.tables, output.requests, output.responses[0]["error_code"]) == ({}, [], 0)


def test_configs_come_back_from_the_table_and_go_over_the_file() -> None:
    job = parse_config({"groups": {GROUP: {HEARTBEAT: 6_000}}}, "test")
    of_file = config_row(HEARTBEAT, "6000") | {"config_source": "STATIC_BROKER_CONFIG"}
    for configs, interval_ms in (([of_file], 6_000), ([of_file, last(1), config_row(HEARTBEAT, "8000")], 8_000)):
        group = GroupDriver(job)
        group.batch(rows.encode_row(rows.LOAD, json.dumps({"share_group_configs": configs})), at=0)
        assert (group.state is None) == (len(configs) == 1)
        output = group.send(replace(heartbeat("h1", 0, topics={}), subscribed_topic_names=("none",)), at=10)
        assert output.responses[0]["heartbeat_interval_ms"] == interval_ms


def test_members_from_the_tables_get_the_configured_session_timeout() -> None:
    group = with_assignment()
    member = {"share_group_members": group.send(heartbeat("h", 0, "m2", topics=ORDERS), at=30).tables}
    tables = {**member["share_group_members"], "share_group_configs": [config_row(SESSION, "60000")]}
    recovered = GroupDriver()
    output = recovered.batch(rows.encode_row(rows.LOAD, json.dumps(tables)), at=100)
    assert output.deadline_ms == T0 + 100 + 60_000 != T0 + 100 + SESSION_MS


def test_a_deleted_groups_configs_are_kept() -> None:
    group = left()
    group.send(altered_configs({SESSION: "60000"}), DeleteGroupRequest(*NAMED), deleted(0, 1), at=40)
    group.batch(tick(40 + DELETED_GROUP_MS), at=40 + DELETED_GROUP_MS)
    assert json.loads(group.state or "")["group"]["configs"] == {SESSION: "60000"}
    assert json.loads(group.state or "")["group"]["group_epoch"] == 0
