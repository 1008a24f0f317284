"""Properties of every rule, in every version of its messages, with generated requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sharegroup.errors import RequestError
from sharegroup.gateway.passthrough.decision import authorize_request
from sharegroup.gateway.passthrough.rights import RequestRights, TopicNames
from sharegroup.gateway.passthrough.rule import Rule
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.kafka_clients.connections.headers import decode_response, read_header
from sharegroup.security.acl import Resource
from tests.unit.gateway.own_requests import PASSED_VERSIONS, bodies, version_params
from tests.unit.gateway.passthrough_cases import ALICE, RecordingAuthorization, alice_acl, authorize_with

EVERYTHING = ("All topic *", "All group *", "All transactional_id *", "All cluster")
#: The fields of responses that have the error of a missing right.
ERROR_FIELDS = {"error_code", "partition_error_code"}


def rights(security: RecordingAuthorization) -> RequestRights:
    """Return rights for which every topic id is the id of topic `t`."""
    return RequestRights(security, ALICE, TopicNames(lambda topic_id: "t", lambda: ["t"]))


def errors(message: Any) -> set[int]:
    """Return every error code in a message."""
    codes: set[int] = set()
    for name in message._struct.fields:
        value = getattr(message, name)
        if name in ERROR_FIELDS:
            codes.add(value)
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "_struct"):
                codes |= errors(item)
    return codes - {0}


def has_null_ids(message: Any) -> bool:
    """Return whether a topic has neither a name nor an id, so that it is unknown to every caller."""
    fields = {field.name for field in message._struct.untagged_fields(message.version)}
    is_null = "topic_id" in fields and message.topic_id is None and not ("name" in fields and message.name)
    values = [getattr(message, name) for name in fields]
    nested = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return is_null or any(has_null_ids(item) for item in nested if hasattr(item, "_struct"))


def has_gaps(message: Any) -> bool:
    """Return whether a list is empty or null, so that there may be no entry to report an error for."""
    fields = message._struct.untagged_fields(message.version)
    lists = [getattr(message, field.name) or [] for field in fields if field.is_array() or field.is_struct_array()]
    nested = (item for value in lists for item in value if hasattr(item, "_struct"))
    return not all(lists) or any(map(has_gaps, nested))


@pytest.mark.parametrize(("rule", "version"), version_params(PASSED_VERSIONS))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_caller_with_all_rights_is_not_denied(rule: Rule, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(rule.request, version))
    assume(not has_null_ids(body))
    security = RecordingAuthorization(alice_acl(*EVERYTHING), hidden=())
    if rule.name == "Fetch":  # as a consumer sends it, without a session
        body.session_epoch, body.replica_id = -1, -1
    passed = authorize_with(
        body, version, security, rights(security), rule.response(version=version) if rule.response else None
    )
    assert passed.sent is not None
    if rule.name not in (
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "DescribeTopicPartitions",
    ):  # these rules change the replica id, or the list of all topics
        assert passed.sent.to_dict(json=False) == body.to_dict(json=False)
    assert not security.denials


@pytest.mark.parametrize(("rule", "version"), version_params(PASSED_VERSIONS))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_request_without_any_right_is_rejected_and_not_forwarded(rule: Rule, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(rule.request, version))
    assume(not has_null_ids(body))
    security = RecordingAuthorization(alice_acl(), hidden=())
    try:
        passed = authorize_with(body, version, security, rights(security), rule.response(version=version))
    except RequestError:
        assert (rule.name, body.acks) == ("Produce", 0)
        assert security.denials
        return
    if security.denials:
        assert passed.sent is None
        assert errors(passed.response) <= {29, 30, 31, 53, 55}
        assert errors(passed.response) or has_gaps(body) or (rule.name == "DescribeLogDirs" and version < 3)
    declared = {(need.operation, need.resource) for need in rule.needs} | {
        (need.or_on_cluster, Resource.CLUSTER) for need in rule.needs if need.or_on_cluster is not None
    }
    assert security.checked <= declared


@pytest.mark.parametrize("name", [rule.name for rule in RULES.values() if rule.request is None and rule.response])
def test_undecoded_requests_are_rejected_without_decoding(name: str) -> None:
    (rule,) = (each for each in RULES.values() if each.name == name)
    assert rule.response is not None
    low, high = rule.response.valid_versions
    for version in range(low, high + 1):
        for grants, is_allowed in ((("All cluster",), True), (("Describe cluster",), False)):
            security = RecordingAuthorization(alice_acl(*grants))
            passed = unread(rule, version, security)
            assert (passed is None) is is_allowed
            assert passed is None or passed.error_code == 31


def unread(rule: Rule, version: int, security: RecordingAuthorization) -> Any:
    """Return the gateway's own response, None if the request is forwarded."""
    frame = memoryview(rule.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\xff\xff\0whatever")
    passage = authorize_request(rule, read_header(frame), frame, rights(security))
    if passage.response is None:
        assert passage.frame is frame
        return None
    assert rule.response is not None
    return decode_response(rule.response, version, memoryview(bytes(passage.response))[4:])


def test_rules_that_need_topic_rights_name_topics() -> None:
    """Such rules also apply without an access control list, to hide the job's internal topics."""
    on_topics = {rule.name for rule in RULES.values() if any(need.resource is Resource.TOPIC for need in rule.needs)}
    assert on_topics <= {rule.name for rule in RULES.values() if rule.names_topics}
