"""A request on its way to the broker: as it came, without what is refused, or answered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.passing.rights import Rights
from sharegroup.gateway.passing.rule import Case, Rule
from sharegroup.gateway.wire.request_decoding import body_start, decode_untagged
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    RequestHeader,
    UnknownVersionError,
    decode_response,
    encode_versioned_response,
)

PRODUCE = 0
#: Largest request that is read, but for a Produce, whose records are not: as objects its numbers take ten times more.
#: A commit of 100,000 offsets is 3 MB.
MAX_READ_BYTES = 8_388_608


class Passage(NamedTuple):
    """`frame` goes to the broker, None where nothing does; `answer` is a whole response, framed, for the client then.

    `finish` makes of the broker's response, a frame without its length, the one for the client, framed; None: it goes
    to the client as it came.
    """

    frame: memoryview | None
    answer: bytearray | None = None
    finish: Callable[[memoryview], bytearray] | None = None


def judge(rule: Rule, header: RequestHeader, frame: memoryview, rights: Rights) -> Passage:
    """What becomes of a request.

    Raises MalformedRequestError or UnknownVersionError for what is no such request, and RequestError for one that is
    refused and has no response.
    """
    if rule.judge is None:
        return Passage(frame)
    oldest, newest = rule.versions or (0, -1)
    if not oldest <= header.api_version <= newest:
        raise UnknownVersionError(f"{rule.name} version {header.api_version}, known are {oldest}..{newest}")
    body: ApiMessage | None = None
    has_tagged_fields = False
    if rule.request is not None:
        if header.api_key != PRODUCE and len(frame) > MAX_READ_BYTES:
            raise MalformedRequestError(f"{rule.name} of {len(frame)} bytes; allowed: up to {MAX_READ_BYTES}")
        body, has_tagged_fields = decode_untagged(rule.request, header, frame)
    case = Case(body, header.api_version, rights, is_changed=has_tagged_fields)
    rule.judge(case)
    if not case.passes:
        return Passage(None, _answered(rule, case, header))
    if body is not None and case.is_changed:
        frame = _encoded(body, header, frame)
    if not case.changes:
        return Passage(frame)
    return Passage(frame, finish=lambda response: _finished(rule, case, header, response))


def _answered(rule: Rule, case: Case, header: RequestHeader) -> bytearray:
    assert rule.response is not None
    response = rule.response(version=header.api_version)
    return _changed(response, case, header)


def _finished(rule: Rule, case: Case, header: RequestHeader, frame: memoryview) -> bytearray:
    message: Any = rule.response
    return _changed(decode_response(message, header.api_version, frame), case, header)


def _changed(response: Any, case: Case, header: RequestHeader) -> bytearray:
    for change in case.changes:
        change(response)
    return encode_versioned_response(response, header.correlation_id)


def _encoded(body: ApiMessage, header: RequestHeader, frame: memoryview) -> memoryview:
    """The request without what is refused, behind the header that it had."""
    start = body_start(type(body), header, frame)
    body.with_header()  # which some of kafka-python's messages look at though it is not encoded here
    return memoryview(bytes(frame[:start]) + body.encode())
