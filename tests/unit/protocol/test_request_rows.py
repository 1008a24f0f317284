"""Rows of the request topics are encoded and decoded, and each invalid one has its own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode, InvalidRequestRow
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY
from sharegroup.protocol.rows.reservation_requests import (
    ASSIGN,
    MAX_LEASE_MS,
    MAX_RESERVED_RECORDS,
    REASSIGN,
    RESERVE,
    UNRESERVE,
    AssignRequest,
    ReassignRequest,
    ReserveRequest,
    UnreserveRequest,
)
from sharegroup.protocol.rows.row_fields import MAX_INT32, MAX_OFFSET, MAX_TEXT_LENGTH, InvalidFieldError
from sharegroup.protocol.rows.share_group_fields import MAX_PARTITIONS, MAX_TOPIC_PARTITIONS
from sharegroup.protocol.rows.share_group_requests import (
    ALTER_CONFIGS,
    ALTER_OFFSETS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    DELETED,
    HEARTBEAT,
    INITIALIZED,
    INVOKE_CONSUMER_REBALANCE,
    REMOVE_MEMBERS,
    SHARE_GROUP_REQUESTS,
    TOPIC_DELETED,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeletedNotice,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    HeartbeatRequest,
    InitializedNotice,
    ShareGroupRequest,
    StartOffset,
    TopicDeletedNotice,
    TopicMetadata,
    decode_share_group_request,
)
from sharegroup.protocol.rows.share_partition_requests import (
    ACKNOWLEDGE,
    CONFIGURE,
    FETCH,
    RELEASE_MEMBER,
    UNACQUIRE,
    AcknowledgeRequest,
    ConfigureRequest,
    FenceMemberRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
    decode_share_partition_request,
)
from sharegroup.types import MAX_TOPIC_NAME_LENGTH, AcknowledgementBatch, AcquiredRange, OffsetRange

TEXT = st.text('aZ0 \t"\\\x00ß€😀', min_size=1, max_size=4)
LONG, LONG_NAME = "x" * (MAX_TEXT_LENGTH + 1), "t" * (MAX_TOPIC_NAME_LENGTH + 1)
TOPIC = st.from_regex(r"[a-zA-Z0-9_-]{1,4}", fullmatch=True)
PARTITIONS = st.integers(0, MAX_TOPIC_PARTITIONS)
MEMBER_ID = TEXT.filter(str.strip)
OFFSET = st.integers(0, MAX_OFFSET)
NUMBER = st.integers(0, MAX_INT32)
RANGES = st.lists(
    st.tuples(OFFSET, OFFSET).map(lambda ends: OffsetRange(*sorted(ends))), min_size=1, max_size=3
).map(tuple)  # fmt: skip
GRANTS = st.lists(
    st.builds(lambda ends, count: AcquiredRange(*sorted(ends), count), st.tuples(OFFSET, OFFSET), st.integers(1, 9)),
    min_size=1,
    max_size=3,
).map(tuple)
BATCHES = st.lists(
    st.builds(AcknowledgementBatch, OFFSET, OFFSET, st.lists(st.integers(-128, 127), max_size=4).map(tuple)),
    min_size=1,
    max_size=3,
).map(tuple)


PROCESS = st.none() | TEXT
COMMON = TEXT, TEXT, TEXT, TEXT, NUMBER, MEMBER_ID, st.integers(-1, MAX_INT32), st.just("") | TEXT, PROCESS
OF_NOBODY = TEXT, TEXT, TEXT, TEXT, NUMBER, st.just(""), st.just(-1), st.just("")
CONFIG = st.dictionaries(TEXT, st.none() | TEXT | NUMBER | st.booleans())
SHARE_PARTITION_ROWS = st.one_of(
    st.builds(
        FetchRequest, *COMMON, max_records=st.integers(0, MAX_INT32), max_wait_ms=NUMBER, is_static=st.booleans(),
        opened_ms=st.integers(-1, MAX_OFFSET),
        linger_ms=st.integers(0, MAX_INT32), reserves=st.booleans(),
    ),
    st.builds(
        AcknowledgeRequest, *COMMON, batches=BATCHES, is_renew_ack=st.booleans(), acquired=st.just(()) | GRANTS,
        lock_deadline_ms=st.integers(-1, MAX_OFFSET), is_static=st.booleans(),
        linger_ms=st.integers(0, MAX_INT32),
    ),
    st.builds(UnacquireRequest, *COMMON, ranges=RANGES),
    st.builds(UnacquireRequest, *COMMON, acquired=GRANTS),
    st.builds(ReleaseMemberRequest, *COMMON, opened_ms=st.integers(-1, MAX_OFFSET)),
    st.builds(ReleaseMemberRequest, *COMMON, delivered=st.just(()) | RANGES, requester=st.just("") | TEXT),
    st.builds(FenceMemberRequest, *COMMON[:-1], TEXT, joined_ms=OFFSET),
    st.builds(ConfigureRequest, *OF_NOBODY, config=CONFIG, altered_ms=OFFSET),
    st.builds(
        ReserveRequest, *OF_NOBODY[:-1], TEXT, records=st.integers(1, MAX_RESERVED_RECORDS),
        lease_ms=st.integers(1, MAX_LEASE_MS), reservation_epoch=NUMBER,
    ),
    st.builds(
        AssignRequest, *COMMON, ranges=RANGES, requester=TEXT, reservation_epoch=NUMBER,
        lock_duration_ms=st.integers(1, MAX_INT32), valid_until_ms=OFFSET,
    ),
    st.builds(
        ReassignRequest, *COMMON, acquired=GRANTS, to_member_id=TEXT, requester=TEXT,
        lock_duration_ms=st.integers(1, MAX_INT32), valid_until_ms=OFFSET, to_incarnation_id=st.none() | TEXT,
    ),
    st.builds(UnreserveRequest, *OF_NOBODY, ranges=st.none() | RANGES, requester=TEXT, reservation_epoch=NUMBER),
)  # fmt: skip


@settings(max_examples=50)
@given(SHARE_PARTITION_ROWS)
def test_an_encoded_share_partition_request_is_decoded(request: SharePartitionRequest) -> None:
    decoded = decode_share_partition_request(request.encode().decode())
    assert (type(decoded), decoded) == (type(request), request)


OF_GROUP = TEXT, st.text(max_size=4), TEXT
STATES = st.lists(st.tuples(TEXT, NUMBER, NUMBER), max_size=3).map(tuple)
TOPICS = st.dictionaries(TOPIC, st.builds(TopicMetadata, TEXT, PARTITIONS), max_size=3)
OFFSETS = st.builds(StartOffset, TEXT, st.integers(-MAX_INT32, MAX_INT32), st.integers(-MAX_OFFSET, MAX_OFFSET))
SOME_OFFSETS = st.lists(OFFSETS, min_size=1, max_size=3).map(tuple)
SOME_TEXTS = st.lists(TEXT, min_size=1, max_size=3).map(tuple)
CONFIGS = st.dictionaries(TEXT, st.none() | st.just("") | TEXT, min_size=1, max_size=3)
SHARE_GROUP_ROWS = st.one_of(
    st.builds(
        HeartbeatRequest, *OF_GROUP, member_id=TEXT, member_epoch=st.integers(-MAX_INT32, MAX_INT32),
        rack_id=st.none() | st.just("") | TEXT, client_id=TEXT, client_host=TEXT,
        subscribed_topic_names=st.none() | st.lists(TEXT, max_size=3).map(tuple), topics=TOPICS,
    ),
    st.builds(InitializedNotice, *OF_GROUP, initialized=STATES),
    st.builds(DeletedNotice, *OF_GROUP, deleted=STATES),
    st.builds(TopicDeletedNotice, *OF_GROUP, topic_ids=SOME_TEXTS),
    st.builds(AlterOffsetsRequest, *OF_GROUP, offsets=SOME_OFFSETS, topics=TOPICS),
    st.builds(DeleteOffsetsRequest, *OF_GROUP, topic_names=SOME_TEXTS),
    st.builds(DeleteGroupRequest, *OF_GROUP),
    st.builds(AlterConfigsRequest, *OF_GROUP, configs=CONFIGS, validate_only=st.booleans()),
)  # fmt: skip


@settings(max_examples=80)
@given(SHARE_GROUP_ROWS)
def test_an_encoded_share_group_request_is_decoded(request: ShareGroupRequest) -> None:
    decoded = decode_share_group_request(request.encode().decode())
    assert (type(decoded), decoded) == (type(request), request)


def test_rows_of_a_share_partition_and_of_a_group_share_a_kafka_key() -> None:
    assert FetchRequest("x", "g", "orders", "id-orders", 3, "m", max_records=1).kafka_key == b"g\tid-orders\t3"
    assert DeleteGroupRequest("x", "grüße").kafka_key == "grüße".encode()


def test_fence_has_the_key_of_rows_for_every_partition() -> None:
    fence = FenceMemberRequest("x", "g", "orders", "id-orders", 3, "m", incarnation_id="p2", joined_ms=1)
    assert fence.kafka_key == BROADCAST_KEY.encode()


# -- rows that cannot be responded to ----------------------------------------------------------------------------------


@pytest.mark.parametrize("decode", [decode_share_partition_request, decode_share_group_request])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "the row is not JSON"),
        ("{", "the row is not JSON"),
        ("[" * 100_000, "the row is not JSON"),
        ('{"id":' + "9" * 5_000 + "}", "the row is not JSON"),
        ("null", "the row is not a JSON object"),
        ("[1]", "the row is not a JSON object"),
        ("{}", "id must be a non-empty string"),
        ('{"id":""}', "id must be a non-empty string"),
        ('{"id":7}', "id must be a non-empty string"),
        ('{"id":"x","reply_to":7}', "reply_to must be a string"),
        ('{"id":"x","member_id":"\\ud800"}', "the row is not Unicode"),
        ('{"id":"x","\\udfff":1}', "the row is not Unicode"),
        (json.dumps({"id": LONG, "reply_to": "me"}), "id or reply_to has more than 1024 characters"),
        (json.dumps({"id": "x", "reply_to": LONG}), "id or reply_to has more than 1024 characters"),
    ],
)
def test_a_row_without_a_requester_is_rejected(decode: Callable[[str], object], value: str, problem: str) -> None:
    with pytest.raises(InvalidRequestRow, match=problem):
        decode(value)


# -- rows that can be responded to ------------------------------------------------------------------------------------

VALID: dict[str, dict[str, Any]] = {
    FETCH: {"max_records": 10, "max_wait_ms": 100},
    ACKNOWLEDGE: {"batches": [[0, 9, [1]]], "is_renew_ack": False},
    UNACQUIRE: {"ranges": [[0, 9]]},
    RELEASE_MEMBER: {},
    CONFIGURE: {"member_id": ..., "config": {"session_timeout_ms": 45_000}},
    RESERVE: {"member_id": ..., "records": 32, "lease_ms": 10_000, "reservation_epoch": 1},
    ASSIGN: {
        "ranges": [[0, 9]],
        "requester": "gateway",
        "reservation_epoch": 1,
        "lock_duration_ms": 9,
        "valid_until_ms": 5,
    },
    REASSIGN: {
        "acquired": [[0, 9, 1]],
        "to_member_id": "m2",
        "requester": "gateway",
        "lock_duration_ms": 9,
        "valid_until_ms": 5,
    },
    UNRESERVE: {"member_id": ..., "requester": "gateway", "reservation_epoch": 1},
    HEARTBEAT: {"member_epoch": 0, "subscribed_topic_names": ["orders"], "topics": {"orders": ["id", 2]}},
    INITIALIZED: {"initialized": [["id", 0, 1]]},
    DELETED: {"deleted": [["id", 0, 1]]},
    TOPIC_DELETED: {"topic_ids": ["id"]},
    ALTER_OFFSETS: {"offsets": [["orders", 0, 17]], "topics": {"orders": ["id", 2]}},
    DELETE_OFFSETS: {"topic_names": ["orders"]},
    DELETE_GROUP: {},
    ALTER_CONFIGS: {"configs": {"share.isolation.level": "read_committed"}},
    INVOKE_CONSUMER_REBALANCE: {},
    REMOVE_MEMBERS: {"members": [["m", None], ["", "worker-1"]]},
}
GROUP_TYPES = SHARE_GROUP_REQUESTS
BATCHES_MUST_BE = "batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]"
RANGES_MUST_BE = "ranges must be a list of [first_offset, last_offset]"
ACQUIRED_MUST_BE = "acquired must be a list of [first_offset, last_offset, delivery_count]"
TOPICS_MUST_BE = "topics must map topic names to [topic_id, partitions]"
OFFSETS_MUST_BE = "offsets must be a list of [topic, partition, start_offset]"
MEMBERS_MUST_BE = "members must be a list of at most 1000 entries [member_id, group_instance_id or null]"
TOO_LONG = "has more than 249 characters"
TEXTS = ("group_id", "member_id", "rack_id", "client_id", "client_host")
INITIALIZED_MUST_BE = "initialized must be a list of [topic_id, partition, state_epoch]"


def row(kind: str, **values: object) -> dict[str, Any]:
    common = {"type": kind, "id": "x", "reply_to": "me", "group_id": "g", "member_id": "m"}
    if kind not in GROUP_TYPES:
        common |= {"topic": "orders", "topic_id": "id", "partition": 0}  # type: ignore[dict-item]
    content = {**common, **VALID[kind], **values}
    return {field: value for field, value in content.items() if value is not Ellipsis}


def decode(content: dict[str, Any]) -> object:
    value = json.dumps(content)
    if content["type"] in GROUP_TYPES:
        return decode_share_group_request(value)
    return decode_share_partition_request(value)


@pytest.mark.parametrize("kind", VALID)
def test_the_rows_of_the_next_test_are_valid_before_it_changes_them(kind: str) -> None:
    decode(row(kind))


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        (FETCH, {"group_id": ...}, "the field group_id is missing"),
        (FETCH, {"group_id": ""}, "group_id must not be empty"),
        (FETCH, {"group_id": 5}, "group_id must be a string"),
        (FETCH, {"topic": ...}, "the field topic is missing"),
        (FETCH, {"topic": None}, "topic must be a string"),
        (FETCH, {"topic_id": ...}, "the field topic_id is missing"),
        (FETCH, {"topic_id": ""}, "topic_id must not be empty"),
        (FETCH, {"topic_id": LONG}, "topic_id has more than 1024 characters"),
        (FETCH, {"partition": ...}, "the field partition is missing"),
        (FETCH, {"partition": "0"}, f"partition must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"partition": True}, f"partition must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"partition": 0.0}, f"partition must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"partition": -1}, f"partition must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"partition": 2**31}, f"partition must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"group_id": LONG}, "group_id has more than 1024 characters"),
        (FETCH, {"topic": LONG_NAME}, "topic has more than 249 characters"),
        (FETCH, {"member_id": ...}, "the field member_id is missing"),
        (FETCH, {"member_id": "  "}, "member_id must have 1 to 36 characters"),
        (FETCH, {"member_id": "m" * 37}, "member_id must have 1 to 36 characters"),
        (FETCH, {"member_epoch": -2}, f"member_epoch must be an integer from -1 to {MAX_INT32}"),
        (FETCH, {"max_records": ...}, "the field max_records is missing"),
        (FETCH, {"max_records": -1}, f"max_records must be an integer from 0 to {MAX_INT32}"),
        (FETCH, {"max_wait_ms": -1}, f"max_wait_ms must be an integer from 0 to {MAX_INT32}"),
        (ACKNOWLEDGE, {"is_renew_ack": 1}, "is_renew_ack must be true or false"),
        (ACKNOWLEDGE, {"batches": ...}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": []}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[0, 9]]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [{"first_offset": 0}]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[-1, 9, [1]]]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[0, 2**63, [1]]]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[0, 9, 1]]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[0, 9, [128]]]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"batches": [[0, 9, [1]], 5]}, BATCHES_MUST_BE),
        (ACKNOWLEDGE, {"acquired": [[0, 9]]}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"ranges": ...}, RANGES_MUST_BE),
        (UNACQUIRE, {"ranges": []}, RANGES_MUST_BE),
        (UNACQUIRE, {"ranges": [[1]]}, RANGES_MUST_BE),
        (UNACQUIRE, {"ranges": [[9, 0]]}, RANGES_MUST_BE),
        (UNACQUIRE, {"ranges": [[0, 2**63]]}, RANGES_MUST_BE),
        (UNACQUIRE, {"acquired": []}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"acquired": 7}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"acquired": [[0, 9]]}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"acquired": [[9, 0, 1]]}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"acquired": [[0, 9, 0]]}, ACQUIRED_MUST_BE),
        (UNACQUIRE, {"acquired": [[0, 9, 2**15]]}, ACQUIRED_MUST_BE),
        (RELEASE_MEMBER, {"requester": 7}, "requester must be a string"),
        (CONFIGURE, {"config": ...}, "config must be a JSON object"),
        (CONFIGURE, {"config": []}, "config must be a JSON object"),
        (RESERVE, {"records": 0}, f"records must be an integer from 1 to {MAX_RESERVED_RECORDS}"),
        (
            RESERVE,
            {"records": MAX_RESERVED_RECORDS + 1},
            f"records must be an integer from 1 to {MAX_RESERVED_RECORDS}",
        ),
        (RESERVE, {"lease_ms": MAX_LEASE_MS + 1}, f"lease_ms must be an integer from 1 to {MAX_LEASE_MS}"),
        (RESERVE, {"reservation_epoch": ...}, "the field reservation_epoch is missing"),
        (ASSIGN, {"member_id": ...}, "the field member_id is missing"),
        (ASSIGN, {"ranges": []}, RANGES_MUST_BE),
        (ASSIGN, {"requester": ""}, "requester must not be empty"),
        (ASSIGN, {"reservation_epoch": -1}, f"reservation_epoch must be an integer from 0 to {MAX_INT32}"),
        (REASSIGN, {"to_member_id": ""}, "to_member_id must not be empty"),
        (REASSIGN, {"to_incarnation_id": 1}, "to_incarnation_id must be a string"),
        (REASSIGN, {"lock_duration_ms": 0}, f"lock_duration_ms must be an integer from 1 to {MAX_INT32}"),
        (ASSIGN, {"lock_duration_ms": 0}, f"lock_duration_ms must be an integer from 1 to {MAX_INT32}"),
        (UNRESERVE, {"ranges": []}, RANGES_MUST_BE),
        (RELEASE_MEMBER, {"type": "leave"}, "type must be one of fetch, acknowledge, unacquire, release_member"),
        (RELEASE_MEMBER, {"type": ["fetch"]}, "type must be one of fetch, acknowledge, unacquire, release_member"),
        (RELEASE_MEMBER, {"type": None}, "type must be one of fetch, acknowledge, unacquire, release_member"),
        (HEARTBEAT, {"group_id": ...}, "the field group_id is missing"),
        (HEARTBEAT, {"member_id": 5}, "member_id must be a string"),
        (HEARTBEAT, {"member_epoch": 2**31}, f"member_epoch must be an integer from {-MAX_INT32} to {MAX_INT32}"),
        (HEARTBEAT, {"rack_id": 5}, "rack_id must be a string"),
        (HEARTBEAT, {"client_host": []}, "client_host must be a string"),
        *((HEARTBEAT, {field: LONG}, f"{field} has more than 1024 characters") for field in TEXTS),
        (HEARTBEAT, {"subscribed_topic_names": [LONG_NAME]}, f"a topic name of subscribed_topic_names {TOO_LONG}"),
        (HEARTBEAT, {"subscribed_topic_names": "orders"}, "subscribed_topic_names must be a list of topic names or"),
        (HEARTBEAT, {"subscribed_topic_names": [""]}, "subscribed_topic_names must be a list of topic names or"),
        (HEARTBEAT, {"subscribed_topic_names": [5]}, "subscribed_topic_names must be a list of topic names or null"),
        (HEARTBEAT, {"topics": []}, TOPICS_MUST_BE),
        (HEARTBEAT, {"topics": {"orders": 2}}, TOPICS_MUST_BE),
        (HEARTBEAT, {"topics": {"orders": [5, 2]}}, TOPICS_MUST_BE),
        (HEARTBEAT, {"topics": {"orders": ["id", -1]}}, TOPICS_MUST_BE),
        (HEARTBEAT, {"topics": {"orders": [LONG, 1]}}, TOPICS_MUST_BE),
        (HEARTBEAT, {"topics": {"bad name": ["id", 1]}}, "topics has the invalid topic name 'bad name'"),
        (HEARTBEAT, {"topics": {"": ["id", 1]}}, "topics has the invalid topic name ''"),
        (HEARTBEAT, {"topics": {"..": ["id", 1]}}, "topics has the invalid topic name '..'"),
        (HEARTBEAT, {"topics": {LONG_NAME: ["id", 1]}}, "topics has the invalid topic name 'ttt"),
        (
            HEARTBEAT,
            {"topics": {"orders": ["id", MAX_TOPIC_PARTITIONS + 1]}},
            f"orders has {MAX_TOPIC_PARTITIONS + 1} partitions, more than {MAX_TOPIC_PARTITIONS}",
        ),
        (
            HEARTBEAT,
            {"topics": {f"t{number}": ["id", MAX_TOPIC_PARTITIONS] for number in range(11)}},
            f"topics have more than {MAX_PARTITIONS} partitions together",
        ),
        (INITIALIZED, {"initialized": {}}, INITIALIZED_MUST_BE),
        (INITIALIZED, {"initialized": [["id", 0]]}, INITIALIZED_MUST_BE),
        (INITIALIZED, {"initialized": [["id", 0, -1]]}, INITIALIZED_MUST_BE),
        (INITIALIZED, {"initialized": [[0, 0, 1]]}, INITIALIZED_MUST_BE),
        (DELETED, {"deleted": [["id", -1, 1]]}, "deleted must be a list of [topic_id, partition, state_epoch]"),
        (TOPIC_DELETED, {"topic_ids": ...}, "topic_ids must be a list of topic ids"),
        (TOPIC_DELETED, {"topic_ids": []}, "topic_ids must be a list of topic ids"),
        (TOPIC_DELETED, {"topic_ids": [5]}, "topic_ids must be a list of topic ids"),
        (TOPIC_DELETED, {"topic_ids": [LONG]}, "topic_ids must be a list of topic ids"),
        (ALTER_OFFSETS, {"offsets": ...}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": []}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": [["orders", 0]]}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": [["orders", 2**31, 0]]}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": [["orders", 0, 2**63]]}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": [["orders", 0, "5"]]}, OFFSETS_MUST_BE),
        (ALTER_OFFSETS, {"offsets": [[LONG_NAME, 0, 0]]}, f"a topic name of offsets {TOO_LONG}"),
        (DELETE_OFFSETS, {"topic_names": [LONG_NAME]}, f"a topic name of topic_names {TOO_LONG}"),
        (DELETE_OFFSETS, {"topic_names": ...}, "topic_names must be a list of topic names"),
        (DELETE_OFFSETS, {"topic_names": [""]}, "topic_names must be a list of topic names"),
        (ALTER_CONFIGS, {"configs": ...}, "configs must map names to strings or null"),
        (ALTER_CONFIGS, {"configs": {"a": 5}}, "configs must map names to strings or null"),
        (ALTER_CONFIGS, {"configs": {LONG: None}}, "a name or value of configs has more than 1024 characters"),
        (ALTER_CONFIGS, {"configs": {"a": LONG}}, "a name or value of configs has more than 1024 characters"),
        (ALTER_CONFIGS, {"validate_only": 1}, "validate_only must be true or false"),
        (HEARTBEAT, {"group_instance_id": 5}, "group_instance_id must be a string"),
        (HEARTBEAT, {"group_instance_id": LONG}, "group_instance_id has more than 1024 characters"),
        (HEARTBEAT, {"incarnation_id": ["p"]}, "incarnation_id must be a string"),
        (FETCH, {"is_static": 1}, "is_static must be true or false"),
        (ACKNOWLEDGE, {"is_static": None}, "is_static must be true or false"),
        (REMOVE_MEMBERS, {"members": ...}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": ["m"]}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": [["m"]]}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": [[None, "worker-1"]]}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": [["m", 5]]}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": [["m", LONG]]}, MEMBERS_MUST_BE),
        (REMOVE_MEMBERS, {"members": [["m", None]] * 1_001}, MEMBERS_MUST_BE),
    ],
)
def test_an_invalid_field_has_an_error_for_the_requester(kind: str, values: dict[str, Any], problem: str) -> None:
    content = row(kind, **values)
    is_group = kind in GROUP_TYPES
    decoder: Callable[[str], object] = decode_share_group_request if is_group else decode_share_partition_request
    value = json.dumps(content)
    with pytest.raises(InvalidFieldError) as caught:
        decoder(value)
    assert caught.value.message.startswith(problem)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert (caught.value.row["id"], caught.value.row["reply_to"]) == ("x", "me")


def test_texts_and_partitions_at_the_limits_are_accepted() -> None:
    long, name = LONG[1:], LONG_NAME[1:]
    topics = {f"t{number}": [long, MAX_TOPIC_PARTITIONS] for number in range(10)} | {name: ["id", 0]}
    decode(
        row(
            HEARTBEAT,
            id=long,
            reply_to=long,
            topics=topics,
            subscribed_topic_names=[name],
            **dict.fromkeys(TEXTS, long),
        )
    )
    decode(row(FETCH, group_id=long, topic=name))
    decode(row(ALTER_CONFIGS, configs={long: long}))


def test_a_subscription_may_have_invalid_topic_names() -> None:
    request = decode_share_group_request(json.dumps(row(HEARTBEAT, subscribed_topic_names=["bad name"])))
    assert isinstance(request, HeartbeatRequest)
    assert request.subscribed_topic_names == ("bad name",)


def test_a_row_of_the_other_topic_is_rejected() -> None:
    with pytest.raises(InvalidFieldError, match="type must be one of fetch"):
        decode_share_partition_request(json.dumps(row(HEARTBEAT)))
    with pytest.raises(InvalidFieldError, match="type must be one of heartbeat, initialized"):
        decode_share_group_request(json.dumps(row(FETCH)))


def test_a_member_id_of_36_characters_and_surrogate_pairs_are_accepted() -> None:
    decoded = decode_share_partition_request(json.dumps(row(FETCH, member_id="😀" * 36)))
    assert decoded.member_id == "😀" * 36


def test_fields_of_another_type_and_unknown_ones_are_ignored() -> None:
    plain, none = decode(row(RELEASE_MEMBER)), decode(row(RELEASE_MEMBER, delivered=[]))
    assert isinstance(plain, ReleaseMemberRequest)
    assert isinstance(none, ReleaseMemberRequest)
    assert (plain.delivered, none.delivered) == (None, ())  # not known, which is not the same as nothing
    assert decode(row(RELEASE_MEMBER, max_records="?", color="red")) == plain


def test_a_missing_reply_to_is_empty() -> None:
    assert decode_share_partition_request(json.dumps(row(FETCH, reply_to=...))).reply_to == ""


@pytest.mark.parametrize("kind", get_args(SharePartitionRequest))
def test_a_row_header_has_the_fields_of_each_constructor_in_order(kind: type[Any]) -> None:
    names = (
        "id",
        "group_id",
        "topic",
        "topic_id",
        "partition",
        "member_id",
        "member_epoch",
        "reply_to",
        "incarnation_id",
    )
    assert kind.__match_args__[: len(names)] == names


def test_a_reservation_needs_a_requester() -> None:
    with pytest.raises(InvalidFieldError, match="reply_to must not be empty"):
        decode(row(RESERVE, reply_to=""))
