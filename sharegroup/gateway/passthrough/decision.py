"""Authorizes requests. A request is forwarded unchanged, forwarded without rejected entries, or rejected."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule
from sharegroup.gateway.wire.request_decoding import body_start, decode_untagged
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    RequestHeader,
    UnknownVersionError,
    decode_response,
    encode_versioned_response,
)

PRODUCE = 0
#: Maximum size of a request that is decoded, because a decoded request takes about ten times its size in memory. For
#: comparison: a commit of 100,000 offsets has 3 MB. Produce is not limited, because its records are not decoded.
MAX_READ_BYTES = 8_388_608


class PassthroughDecision(NamedTuple):
    """The result of authorizing a request: what is forwarded to the broker, and what the client receives.

    Attributes:
        frame: the request for the broker; None if the request is not forwarded.
        response: the complete framed response if the request is not forwarded, else None.
        convert_response: converts the broker's response (a frame without its length) to the framed response for the
            client. If it is None, the broker's response is forwarded unchanged.
    """

    frame: memoryview | None
    response: bytearray | None = None
    convert_response: Callable[[memoryview], bytearray] | None = None


def authorize_request(
    rule: Rule, header: RequestHeader, frame: memoryview, rights: RequestRights
) -> PassthroughDecision:
    """Authorize a request with the rule of its API.

    Raises:
        MalformedRequestError: the request cannot be decoded or is too large.
        UnknownVersionError: the rule does not support the API version.
        RequestError: a Produce with acks=0 contains rejected records. It has no response that could report the error.
    """
    if rule.check is None:
        return PassthroughDecision(frame)
    oldest, newest = rule.versions or (0, -1)
    if not oldest <= header.api_version <= newest:
        raise UnknownVersionError(f"{rule.name} version {header.api_version} is unknown; supported: {oldest}..{newest}")
    body: ApiMessage | None = None
    has_tagged_fields = False
    if rule.request is not None:
        if header.api_key != PRODUCE and len(frame) > MAX_READ_BYTES:
            raise MalformedRequestError(f"{rule.name} request has {len(frame)} bytes; the limit is {MAX_READ_BYTES}")
        body, has_tagged_fields = decode_untagged(rule.request, header, frame)
    case = RequestUnderCheck(body, header.api_version, rights, is_changed=has_tagged_fields)
    rule.check(case)
    if not case.is_forwarded:
        return PassthroughDecision(None, _own_response(rule, case, header))
    if body is not None and case.is_changed:
        frame = _encoded(body, header, frame)
    if not case.changes:
        return PassthroughDecision(frame)
    return PassthroughDecision(
        frame, convert_response=lambda response: _converted_response(rule, case, header, response)
    )


def _own_response(rule: Rule, case: RequestUnderCheck, header: RequestHeader) -> bytearray:
    assert rule.response is not None
    response = rule.response(version=header.api_version)
    return _changed(response, case, header)


def _converted_response(rule: Rule, case: RequestUnderCheck, header: RequestHeader, frame: memoryview) -> bytearray:
    message: Any = rule.response
    return _changed(decode_response(message, header.api_version, frame), case, header)


def _changed(response: Any, case: RequestUnderCheck, header: RequestHeader) -> bytearray:
    for change in case.changes:
        change(response)
    return encode_versioned_response(response, header.correlation_id)


def _encoded(body: ApiMessage, header: RequestHeader, frame: memoryview) -> memoryview:
    """Return the request with its original header and without its rejected entries."""
    start = body_start(type(body), header, frame)
    body.with_header()  # some messages of kafka-python require a header to be set, although it is not encoded here
    return memoryview(bytes(frame[:start]) + body.encode())
