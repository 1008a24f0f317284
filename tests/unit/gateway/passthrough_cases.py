"""Encoded requests, sent through the rules of forwarded APIs, and the results."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from sharegroup.gateway.passthrough.decision import authorize_request
from sharegroup.gateway.passthrough.rights import RequestRights, TopicNames
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.kafka_clients.connections.headers import decode_response, encode_response, read_header
from sharegroup.security.acl import Acl, AclEntry, Operation, Resource
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from tests.unit.gateway.wire_bytes import decode, request_frame

ALICE = Caller(1, 1, "10.0.0.1", "User:alice")
HIDDEN = "rows-of-the-job"


def alice_acl(*grants: str) -> Acl:
    """Return a list for alice: "Read topic orders", "Write topic ord*" (a prefix), "Deny All topic secret"."""
    entries = []
    for grant in grants:
        *permission, operation, resource, name = (*grant.split(), "")[: 4 if grant.startswith("Deny") else 3]
        pattern = {"prefix": name[:-1]} if len(name) > 1 and name.endswith("*") else {"name": name}
        entries.append(
            AclEntry.model_validate(
                {
                    "principal": "User:alice",
                    "resource": resource,
                    "operations": [operation],
                    "permission": permission[0] if permission else "Allow",
                    **({} if resource == "cluster" else pattern),
                }
            )
        )
    return Acl(entries)


def alice_may(*grants: str, hidden: tuple[str, ...] = ()) -> Authorization:
    """Return the Authorization of a list as `alice_acl` describes it."""
    return Authorization(alice_acl(*grants), hidden)


class RecordingAuthorization(Authorization):
    """An Authorization that records denials in `denials`, and every checked (operation, resource) in `asked`."""

    def __init__(self, acl: Acl | None, hidden: tuple[str, ...] = (HIDDEN,)) -> None:
        super().__init__(acl, hidden)
        self.denials: list[tuple[str, str, str]] = []
        self.checked: set[tuple[Operation, Resource]] = set()

    def report_denied(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        assert caller is ALICE
        self.denials.append((operation.name, resource.value, name))

    def would_allow(
        self, caller: Caller, operation: Operation, resource: Resource, name: str = "kafka-cluster"
    ) -> bool:
        self.checked.add((operation, resource))
        return super().would_allow(caller, operation, resource, name)


class Outcome(NamedTuple):
    """The result for one request.

    `sent` is the request for the broker, None if there is none. `answer` is the response for the client, made from the
    broker's response if there is one.
    """

    sent: Any
    response: Any
    is_as_it_came: bool
    security: RecordingAuthorization


def authorize(
    request: Any,
    version: int,
    *grants: str,
    acl: bool = True,
    topics: Mapping[str, uuid.UUID] | None = None,
    response: Any = None,
) -> Outcome:
    """Authorize a request. `topics` are those that the gateway knows; `response` is the broker's."""
    security = RecordingAuthorization(alice_acl(*grants) if acl else None)
    by_id = {topic_id: name for name, topic_id in (topics or {}).items()}
    rights = RequestRights(security, ALICE, TopicNames(by_id.get, lambda: list(topics or {})))
    return authorize_with(request, version, security, rights, response)


def authorize_with(
    request: Any, version: int, security: RecordingAuthorization, rights: RequestRights, response: Any = None
) -> Outcome:
    """Authorize a request with existing rights."""
    rule = RULES[request.API_KEY]
    frame = request_frame(request, version)
    try:
        passage = authorize_request(rule, read_header(frame), frame, rights)
    finally:
        rights.report_denials()
    sent = answer = None
    if passage.frame is not None:
        assert read_header(passage.frame) == read_header(frame)
        if rule.request is not None:
            sent = decode(rule.request, passage.frame)
        if response is not None:
            returned: Any = memoryview(bytes(encode_response(response, version, 7))[4:])
            if passage.convert_response is not None:
                returned = memoryview(bytes(passage.convert_response(returned)))[4:]
            answer = decode_response(type(response), version, returned)
    if passage.response is not None:
        assert rule.response is not None
        answer = decode_response(rule.response, version, memoryview(bytes(passage.response))[4:])
    return Outcome(sent, answer, passage.frame == frame and passage.convert_response is None, security)
