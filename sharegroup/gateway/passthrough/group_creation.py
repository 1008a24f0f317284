"""Rejects requests that would create a group at the brokers with the id of one of the job's share groups.

In Kafka, groups of different types cannot have the same id. The brokers do not store the job's share groups, so the
gateway must reject these requests. It returns the errors that Kafka 4.3 returns.

Requests of members that have already joined cannot create a group. They are forwarded, and the brokers reject them
because the group does not exist there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kafka.protocol.consumer import OffsetCommitResponse
from kafka.protocol.producer import TxnOffsetCommitResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough.decision import PassthroughDecision, authorize_request
from sharegroup.gateway.passthrough.entries import TopicFields, append_entries
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestCheck, RequestUnderCheck, set_error
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.gateway.wire.request_decoding import leading_strings
from sharegroup.kafka_clients.connections.headers import RequestHeader

JOIN_GROUP, OFFSET_COMMIT, TXN_OFFSET_COMMIT = 11, 8, 28
CONSUMER_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT = 68, 88


@dataclass(frozen=True)
class _Creation:
    """Describes how to recognise requests of one API that create a group, and how to reject them.

    The body of the request begins with one or more strings. From version `since` on, they are followed by `gap` other
    bytes and then an int32, which is the member epoch or the generation.

    Attributes:
        reject: rejects the request.
        creates: returns whether a request with this int32 creates a group.
        strings: the number of strings.
        group: the index of the string that is the group id.
        gap: the number of bytes between the strings and the int32.
        since: the first version with the int32. Requests of earlier versions always create a group.
    """

    reject: RequestCheck
    creates: Callable[[int], bool]
    strings: int = 1
    group: int = 0
    gap: int = 0
    since: int = 0


def get_created_group(header: RequestHeader, frame: memoryview) -> str | None:
    """Return the id of the group that the brokers would create for this request if it did not exist.

    Return None if the request cannot create a group. Raises MalformedRequestError if the request cannot be decoded.
    """
    creation = _CREATIONS.get(header.api_key)
    request = RULES[header.api_key].request if creation is not None else None
    if creation is None or request is None:
        return None
    names, position = leading_strings(request, header, frame, creation.strings)
    if header.api_version >= creation.since:
        number = frame[position + creation.gap : position + creation.gap + 4]
        if len(number) == 4 and not creation.creates(int.from_bytes(number, "big", signed=True)):
            return None
    return names[creation.group]


def reject_group_creation(
    passage: PassthroughDecision, header: RequestHeader, rights: RequestRights
) -> PassthroughDecision:
    """Return the rejection of a request that would create a group with the id of a share group.

    The caller must have checked that such a share group exists. `passage` is the decision of `authorize_request` to
    forward the request. If that decision adds errors of rejected entries to the response, the rejection contains these
    errors too. Raises MalformedRequestError if the request cannot be decoded.
    """
    assert passage.frame is not None
    rule = replace(RULES[header.api_key], check=_CREATIONS[header.api_key].reject)
    answer = authorize_request(rule, header, passage.frame, rights).response
    assert answer is not None
    if passage.convert_response is not None:
        answer = passage.convert_response(memoryview(answer)[4:])
    return PassthroughDecision(None, answer)


def _reject_join(case: RequestUnderCheck) -> None:
    case.reject_whole(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _reject_heartbeat(kind: str, case: RequestUnderCheck) -> None:
    message = f"Group {case.body.group_id} is not a {kind} group."

    def set_message(response: Any) -> None:
        set_error(response, ErrorCode.GROUP_ID_NOT_FOUND)
        response.error_message = message

    case.reject(set_message)


def _reject_offsets(lists: TopicFields, case: RequestUnderCheck) -> None:
    errors = lists.topic_errors(case.body.topics, ErrorCode.GROUP_ID_NOT_FOUND)
    case.reject(lambda response: append_entries(response, "topics", errors))


def _always(_number: int) -> bool:
    return True


def _is_join(member_epoch: int) -> bool:
    return member_epoch == 0


def _is_without_member(generation: int) -> bool:
    return generation < 0


_CREATIONS: Final[Mapping[int, _Creation]] = {
    JOIN_GROUP: _Creation(_reject_join, _always),
    CONSUMER_GROUP_HEARTBEAT: _Creation(partial(_reject_heartbeat, "consumer"), _is_join, strings=2),
    STREAMS_GROUP_HEARTBEAT: _Creation(partial(_reject_heartbeat, "streams"), _is_join, strings=2),
    OFFSET_COMMIT: _Creation(partial(_reject_offsets, TopicFields(OffsetCommitResponse)), _is_without_member),
    # The producer's id and epoch come before the generation.
    TXN_OFFSET_COMMIT: _Creation(
        partial(_reject_offsets, TopicFields(TxnOffsetCommitResponse)),
        _is_without_member,
        strings=2,
        group=1,
        gap=10,
        since=3,
    ),
}
