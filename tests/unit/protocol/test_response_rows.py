"""Rows of the response topic are encoded and decoded, and invalid ones are rejected."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.broadcasts import (
    BROADCAST_KEY,
    Broadcast,
    MemberLeftBroadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
    decode_broadcast,
    encode_broadcast,
    to_row,
)
from sharegroup.protocol.rows.response_rows import Response, decode_responses, encode_response
from sharegroup.protocol.rows.share_group_requests import MemberIdentity
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    DeleteGroupResponse,
    DeleteOffsetsResponse,
    HeartbeatResponse,
    InvokeConsumerRebalanceResponse,
    MemberError,
    PartitionError,
    RemoveMembersResponse,
    ShareGroupRejection,
    TopicError,
)
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    ReserveResponse,
    SharePartitionRejection,
    UnacquireResponse,
    WantedNotice,
)
from sharegroup.types import AcquiredRange

TEXT = st.text('aZ0 \t"\\\x00ß€😀', max_size=4)
NUMBER = st.integers(-1, 2**63 - 1)
ERROR = st.sampled_from(ErrorCode), st.none() | TEXT
OF_SHARE_PARTITION = TEXT, TEXT, TEXT, TEXT, TEXT, NUMBER, TEXT, *ERROR
OF_GROUP = TEXT, TEXT, TEXT, *ERROR
RANGES = st.lists(st.builds(AcquiredRange, NUMBER, NUMBER, NUMBER), max_size=3).map(tuple)
ASSIGNMENT = st.dictionaries(TEXT, st.tuples(TEXT, st.lists(NUMBER, max_size=3)).map(list), max_size=2)
PARTITION_ERRORS = st.lists(st.builds(PartitionError, TEXT, NUMBER, NUMBER, st.none() | TEXT), max_size=2).map(tuple)
TOPIC_ERRORS = st.lists(st.builds(TopicError, TEXT, NUMBER, st.none() | TEXT), max_size=2).map(tuple)
NAME = st.none() | TEXT
MEMBERS = st.lists(st.builds(MemberIdentity, TEXT, NAME), max_size=2).map(tuple)
MEMBER_ERRORS = st.lists(st.builds(MemberError, TEXT, NAME, NUMBER, st.none() | TEXT), max_size=2).map(tuple)
RESPONSES = st.one_of(
    st.builds(
        FetchResponse, *OF_SHARE_PARTITION, acquired=RANGES, lock_deadline_ms=NUMBER, read_committed=st.booleans(),
        delivery_count_limit=NUMBER
    ),
    st.builds(
        AcknowledgeResponse, *OF_SHARE_PARTITION, acquired=RANGES, lock_deadline_ms=NUMBER, renewals_off=st.booleans()
    ),
    st.builds(UnacquireResponse, *OF_SHARE_PARTITION),
    st.builds(ReleaseMemberResponse, *OF_SHARE_PARTITION),
    st.builds(
        ReserveResponse, *OF_SHARE_PARTITION, acquired=RANGES, reservation_epoch=NUMBER,
        log_end_offset=NUMBER, read_committed=st.booleans(), record_lock_duration_ms=NUMBER,
    ),
    st.builds(WantedNotice, *OF_SHARE_PARTITION),
    st.builds(SharePartitionRejection, *OF_SHARE_PARTITION, type=TEXT),
    st.builds(
        HeartbeatResponse, *OF_GROUP, member_id=TEXT, member_epoch=NUMBER, heartbeat_interval_ms=NUMBER,
        assignment=st.none() | ASSIGNMENT, subscribed_topic_names=st.none() | st.lists(TEXT, max_size=2).map(tuple),
        session_deadline_ms=NUMBER,
    ),
    st.builds(AlterOffsetsResponse, *OF_GROUP, partition_errors=PARTITION_ERRORS),
    st.builds(DeleteOffsetsResponse, *OF_GROUP, topic_errors=TOPIC_ERRORS),
    st.builds(DeleteGroupResponse, *OF_GROUP),
    st.builds(AlterConfigsResponse, *OF_GROUP),
    st.builds(InvokeConsumerRebalanceResponse, *OF_GROUP, removed=MEMBERS),
    st.builds(RemoveMembersResponse, *OF_GROUP, member_errors=MEMBER_ERRORS),
    st.builds(ShareGroupRejection, *OF_GROUP, type=TEXT),
)  # fmt: skip


@settings(max_examples=50)
@given(RESPONSES)
def test_an_encoded_response_is_decoded(response: Response) -> None:
    (decoded,) = decode_responses(json.dumps(encode_response(response)).encode())
    assert (type(decoded), decoded) == (type(response), response)


@settings(max_examples=20)
@given(
    st.one_of(
        st.just(NewLeaderBroadcast()),
        st.builds(MemberLeftBroadcast, TEXT, TEXT, NUMBER),
        st.builds(TopicDeletedBroadcast, TEXT, TEXT),
    )
)
def test_an_encoded_broadcast_is_decoded(broadcast: Broadcast) -> None:
    assert to_row(broadcast)["reply_to"] == BROADCAST_KEY
    decoded = decode_broadcast(encode_broadcast(broadcast))
    assert (type(decoded), decoded) == (type(broadcast), broadcast)


@pytest.mark.parametrize("value", [b"", b"{", b"[5]", b"5", b"null", b"{}", b'{"member_id":"m"}', b"\xff"])
def test_an_invalid_broadcast_is_rejected(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message or ours
        decode_broadcast(value)


def test_a_heartbeat_response_of_an_earlier_version_is_read() -> None:
    row = b'{"type":"heartbeat","id":"x","reply_to":"me","group_id":"g","member_id":"m","member_epoch":3}'
    assert decode_responses(row)[0] == HeartbeatResponse("x", "me", "g", member_id="m", member_epoch=3)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[5]", b"5", b"null", b"{}", b'{"topic":"orders"}', b'{"id":"x","color":"red"}', b"\xff"]
)
def test_an_invalid_response_is_rejected(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message or ours
        decode_responses(value)
