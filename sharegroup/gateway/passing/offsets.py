"""Rules for the APIs of consumer group offsets."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.data_container import DataContainer

from sharegroup.gateway.passing import needs
from sharegroup.gateway.passing.entries import TopicLists, add, split, topic_name
from sharegroup.gateway.passing.rights import Rights
from sharegroup.gateway.passing.rule import Case, Rule, rule, set_error

#: The first versions of OffsetFetch whose response has a top-level error, and that support several groups.
ERROR_VERSION, GROUPS_VERSION = 2, 8
_NO_OFFSET = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}

_COMMITTED = TopicLists(OffsetCommitResponse)
_DELETED = TopicLists(OffsetDeleteResponse)


def _commit(case: Case) -> None:
    code = case.rights.refusal(needs.READ_GROUP, case.body.group_id)
    if code is not None:
        errors = _COMMITTED.answers(case.body.topics, code)
        case.refuse(lambda response: add(response, "topics", errors))
    else:
        _COMMITTED.take_out(case, _COMMITTED.refusal(case, needs.READ_TOPIC))


def _delete(case: Case) -> None:
    code = case.rights.refusal(needs.DELETE_GROUP, case.body.group_id)
    if code is not None:
        case.refuse(lambda response: set_error(response, code))
    else:
        _DELETED.take_out(case, _DELETED.refusal(case, needs.READ_TOPIC))


def _fetch(case: Case) -> None:
    if case.version >= GROUPS_VERSION:
        _fetch_groups(case)
        return
    lists = _fetched(OffsetFetchResponse)
    code = case.rights.refusal(needs.DESCRIBE_GROUP, case.body.group_id)
    if code is not None and case.version >= ERROR_VERSION:
        case.refuse(lambda response: set_error(response, code))
    elif code is not None:
        errors = lists.answers(case.body.topics or (), code)
        case.refuse(lambda response: add(response, "topics", errors))
    elif case.body.topics is None:
        case.change(lambda response: _leave_out(response, case.version, case.rights))
    else:
        lists.take_out(case, lists.refusal(case, needs.DESCRIBE_TOPIC))


def _fetch_groups(case: Case) -> None:
    """Authorize the topics of each group separately.

    A group whose topics are all rejected is not forwarded: without topics, the broker would return all of them.
    """
    found = OffsetFetchResponse.OffsetFetchResponseGroup
    lists = _fetched(found)
    passed, errors, merged = [], [], {}
    for group in case.body.groups:
        code = case.rights.refusal(needs.DESCRIBE_GROUP, group.group_id)
        if code is not None:
            errors.append(found(group_id=group.group_id, topics=[], error_code=int(code)))
            continue
        allowed, rejected = split(group.topics or (), lists.refusal(case, needs.DESCRIBE_TOPIC))
        topics = [lists.answer(topic, why) for topic, why in rejected]
        if rejected and not allowed:
            errors.append(found(group_id=group.group_id, topics=topics, error_code=0))
            continue
        if rejected:
            case.keep(group, "topics", allowed)
            merged[group.group_id] = topics
        passed.append(group)
    everything = {group.group_id for group in passed if group.topics is None}
    case.passes = bool(passed) or not case.body.groups
    case.keep(case.body, "groups", passed)
    if errors or merged or everything:
        case.change(lambda response: _merge(response, errors, merged, everything, case.version, case.rights))


def _merge(
    response: Any, errors: list[Any], merged: dict[str, list[Any]], everything: set[str], version: int, rights: Rights
) -> None:
    for group in response.groups:
        if group.group_id in everything:
            _leave_out(group, version, rights)
        add(group, "topics", merged.get(group.group_id, []))
    add(response, "groups", errors)


def _leave_out(group: Any, version: int, rights: Rights) -> None:
    """Remove topics that the caller may not describe from a response for all topics."""
    names = [(topic, topic_name(topic, version, "name", rights)) for topic in group.topics]
    seen = needs.DESCRIBE_TOPIC
    group.topics = [topic for topic, name in names if name is not None and rights.would_allow(seen, name)]


def _fetched(container: type[DataContainer]) -> TopicLists:
    return TopicLists(container, partitions="partition_indexes", index="", blank=_NO_OFFSET)


RULES: list[Rule] = [
    rule(OffsetCommitRequest, OffsetCommitResponse, (needs.READ_GROUP, needs.READ_TOPIC), "each partition", _commit),
    rule(
        OffsetFetchRequest,
        OffsetFetchResponse,
        (needs.DESCRIBE_GROUP, needs.DESCRIBE_TOPIC),
        "the group, or each partition; left out of a response for all topics",
        _fetch,
    ),
    rule(
        OffsetDeleteRequest,
        OffsetDeleteResponse,
        (needs.DELETE_GROUP, needs.READ_TOPIC),
        "the response, or each partition",
        _delete,
    ),
]
