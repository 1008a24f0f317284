"""Rules for the APIs of consumer group offsets."""

from typing import Any

from kafka.protocol import consumer
from kafka.protocol.data_container import DataContainer

from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import TopicFields, append_entries, split_rejected, topic_name
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule

#: The first version of OffsetFetch with a top-level error in the response, and the first version with several groups.
ERROR_VERSION, GROUPS_VERSION = 2, 8
_NO_OFFSET = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}

_COMMITTED = TopicFields(consumer.OffsetCommitResponse)
_DELETED = TopicFields(consumer.OffsetDeleteResponse)


def _commit(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.READ_GROUP, case.body.group_id)
    if code is not None:
        errors = _COMMITTED.topic_errors(case.body.topics, code)
        case.reject(lambda response: append_entries(response, "topics", errors))
    else:
        _COMMITTED.reject_topics(case, _COMMITTED.topic_check(case, needs.READ_TOPIC))


def _delete(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.DELETE_GROUP, case.body.group_id)
    if code is not None:
        case.reject_whole(code)
    else:
        _DELETED.reject_topics(case, _DELETED.topic_check(case, needs.READ_TOPIC))


def _fetch(case: RequestUnderCheck) -> None:
    if case.version >= GROUPS_VERSION:
        _fetch_groups(case)
        return
    lists = _fetched(consumer.OffsetFetchResponse)
    code = case.rights.authorize(needs.DESCRIBE_GROUP, case.body.group_id)
    if code is not None and case.version >= ERROR_VERSION:
        case.reject_whole(code)
    elif code is not None:
        errors = lists.topic_errors(case.body.topics or (), code)
        case.reject(lambda response: append_entries(response, "topics", errors))
    elif case.body.topics is None:
        case.add_response_change(lambda response: _leave_out(response, case.version, case.rights))
    else:
        lists.reject_topics(case, lists.topic_check(case, needs.DESCRIBE_TOPIC))


def _fetch_groups(case: RequestUnderCheck) -> None:
    """Authorize an OffsetFetch with several groups. The topics of each group are checked separately.

    If all topics of a group are rejected, the group is not forwarded, because the broker would return the offsets of
    all topics for a group without topics.
    """
    found = consumer.OffsetFetchResponse.OffsetFetchResponseGroup
    lists = _fetched(found)
    passed, errors, merged = [], [], {}
    for group in case.body.groups:
        code = case.rights.authorize(needs.DESCRIBE_GROUP, group.group_id)
        if code is not None:
            errors.append(found(group_id=group.group_id, topics=[], error_code=int(code)))
            continue
        allowed, rejected = split_rejected(group.topics or (), lists.topic_check(case, needs.DESCRIBE_TOPIC))
        topics = [lists.topic_error(topic, why) for topic, why in rejected]
        if rejected and not allowed:
            errors.append(found(group_id=group.group_id, topics=topics, error_code=0))
            continue
        if rejected:
            case.retain_entries(group, "topics", allowed)
            merged[group.group_id] = topics
        passed.append(group)
    everything = {group.group_id for group in passed if group.topics is None}
    case.is_forwarded = bool(passed) or not case.body.groups
    case.retain_entries(case.body, "groups", passed)
    if errors or merged or everything:
        case.add_response_change(
            lambda response: _merge(response, errors, merged, everything, case.version, case.rights)
        )


def _merge(
    response: Any,
    errors: list[Any],
    merged: dict[str, list[Any]],
    everything: set[str],
    version: int,
    rights: RequestRights,
) -> None:
    for group in response.groups:
        if group.group_id in everything:
            _leave_out(group, version, rights)
        append_entries(group, "topics", merged.get(group.group_id, []))
    append_entries(response, "groups", errors)


def _leave_out(group: Any, version: int, rights: RequestRights) -> None:
    """Remove topics that the caller may not describe from the response to a request for all topics.

    `group` is the response, or its part for one group. Topics with an unknown id are removed too.
    """
    names = [(topic, topic_name(topic, version, "name", rights)) for topic in group.topics]
    seen = needs.DESCRIBE_TOPIC
    group.topics = [topic for topic, name in names if name is not None and rights.would_allow(seen, name)]


def _fetched(container: type[DataContainer]) -> TopicFields:
    return TopicFields(container, partitions="partition_indexes", index="", blank=_NO_OFFSET)


RULES: list[Rule] = [
    make_rule(consumer.OffsetCommitRequest, (needs.READ_GROUP, needs.READ_TOPIC), "each partition", _commit),
    make_rule(
        consumer.OffsetFetchRequest,
        (needs.DESCRIBE_GROUP, needs.DESCRIBE_TOPIC),
        "the group, or each partition; left out of a response for all topics",
        _fetch,
    ),
    make_rule(
        consumer.OffsetDeleteRequest, (needs.DELETE_GROUP, needs.READ_TOPIC), "the response, or each partition", _delete
    ),
]
