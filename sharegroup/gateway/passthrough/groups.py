"""Rules for the APIs of consumer groups: classic groups, KIP-848 groups, and streams groups (KIP-1071)."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kafka.protocol import admin, consumer
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import reject_entries
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule, make_whole_request_rule
from sharegroup.protocol import messages
from sharegroup.security.acl import Resource
from sharegroup.security.authorization import encode_operations

NOT_ASKED_FOR = -2147483648


def _describe_groups(case: RequestUnderCheck) -> None:
    found = admin.DescribeGroupsResponse.DescribedGroup
    reject_entries(
        case,
        "groups",
        lambda group_id: case.rights.authorize(needs.DESCRIBE_GROUP, group_id),
        "groups",
        lambda group_id, code: found(
            error_code=int(code),
            error_message=None,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        ),
    )
    if case.rights.has_list and case.body.include_authorized_operations:
        case.add_response_change(lambda response: _with_operations(response, case.rights))


def _with_operations(response: Any, rights: RequestRights) -> None:
    """Replace AuthorizedOperations in the response, which are the gateway's operations, by those of the caller."""
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = rights.operations(Resource.GROUP, group.group_id)


def _consumer_heartbeat(case: RequestUnderCheck) -> None:
    """Authorize ConsumerGroupHeartbeat, and make the assignment in the response contain only permitted topics.

    The coordinator may assign topics that the member may not describe, because it evaluates regular expressions in
    subscriptions with the gateway's rights.
    """
    rejected = case.rights.authorize(needs.READ_GROUP, case.body.group_id)
    rejected = rejected or _first_error(case.rights, case.body.subscribed_topic_names or ())
    if rejected is not None:
        case.reject_whole(rejected)
    else:
        case.add_response_change(lambda response: _assign_visible_topics(response, case.rights))


def _first_error(rights: RequestRights, topics: Iterable[str]) -> ErrorCode | None:
    codes = (rights.authorize(needs.DESCRIBE_TOPIC, topic) for topic in topics)
    return next((code for code in codes if code is not None), None)


def _assign_visible_topics(response: Any, rights: RequestRights) -> None:
    if response.assignment is None:
        return
    response.assignment.topic_partitions = [
        topic
        for topic in response.assignment.topic_partitions
        if _is_visible(rights.topic_name(topic.topic_id), rights)
    ]


def _is_visible(name: str | None, rights: RequestRights) -> bool:
    """Return whether the member may describe the topic. True if the name is not known yet (None).

    The gateway's metadata may not contain a new topic yet. Its partitions must not be removed, because the coordinator
    sends an assignment only once.
    """
    return name is None or rights.would_allow(needs.DESCRIBE_TOPIC, name)


def _streams_heartbeat(case: RequestUnderCheck) -> None:
    """Authorize StreamsGroupHeartbeat.

    Internal topics of the application that do not exist yet require the right Create, because the coordinator would
    create them with the gateway's rights.
    """
    rejected = case.rights.authorize(needs.READ_GROUP, case.body.group_id)
    if rejected is None and case.body.topology is not None:
        rejected = _first_error(case.rights, _topics_of_topology(case.body.topology)) or _first_uncreatable(
            case.rights, case.body.topology
        )
    if rejected is not None:
        case.reject_whole(rejected)


def _first_uncreatable(rights: RequestRights, topology: Any) -> ErrorCode | None:
    known = set(rights.all_topics())
    missing = (name for name in _internal_topics(topology) if name not in known)
    codes = (rights.authorize(needs.CREATE_TOPIC, name) for name in missing)
    return next((code for code in codes if code is not None), None)


def _internal_topics(topology: Any) -> list[str]:
    return [
        topic.name
        for part in topology.subtopologies or ()
        for topic in (*part.state_changelog_topics, *part.repartition_source_topics)
    ]


def _topics_of_topology(topology: Any) -> list[str]:
    """Return the names of all topics in a topology, without duplicates."""
    named = (
        name for part in topology.subtopologies or () for name in (*part.source_topics, *part.repartition_sink_topics)
    )
    return list(dict.fromkeys((*named, *_internal_topics(topology))))


def _describe_members(of_group: Any, case: RequestUnderCheck) -> None:
    """Authorize a request that describes groups.

    A group is described only if the caller may describe the group and all topics in its description. Each other group
    gets an error. `of_group` is (response class, function that returns the topics of a described group).
    """
    response, topics_of = of_group
    described = response.DescribedGroup
    reject_entries(
        case,
        "group_ids",
        lambda group_id: case.rights.authorize(needs.DESCRIBE_GROUP, group_id),
        "groups",
        lambda group_id, code: _rejected_group(described, group_id, code),
    )
    case.add_response_change(lambda answer: _hide_groups(answer, described, topics_of, case.rights))


def _hide_groups(response: Any, described: Any, topics_of: Any, rights: RequestRights) -> None:
    shown = []
    for group in response.groups:
        if group.error_code or all(rights.would_allow(needs.DESCRIBE_TOPIC, topic) for topic in topics_of(group)):
            shown.append(group)
        else:
            shown.append(_rejected_group(described, group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if rights.has_list and not group.error_code and group.authorized_operations != NOT_ASKED_FOR:
            group.authorized_operations = encode_operations(rights.operations(Resource.GROUP, group.group_id))
    response.groups = shown


def _rejected_group(described: Any, group_id: str, code: ErrorCode) -> Any:
    return described(error_code=int(code), group_id=group_id, members=[])


def _topics_of_consumers(group: Any) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    } | {name for member in group.members for name in member.subscribed_topic_names}


def _topics_of_streams(group: Any) -> list[str]:
    return [] if group.topology is None else _topics_of_topology(group.topology)


def _member(request: type[ApiMessage]) -> Rule:
    return make_whole_request_rule(request, {needs.READ_GROUP: "group_id"})


RULES: list[Rule] = [
    _member(consumer.JoinGroupRequest),
    _member(consumer.HeartbeatRequest),
    _member(consumer.LeaveGroupRequest),
    _member(consumer.SyncGroupRequest),
    make_rule(admin.DescribeGroupsRequest, (needs.DESCRIBE_GROUP,), "each group", _describe_groups),
    make_rule(
        messages.ConsumerGroupHeartbeatRequest,
        (needs.READ_GROUP, needs.DESCRIBE_TOPIC),
        "the response; topics of a regular expression are not assigned",
        _consumer_heartbeat,
    ),
    make_rule(
        messages.ConsumerGroupDescribeRequest,
        (needs.DESCRIBE_GROUP, needs.DESCRIBE_TOPIC),
        "each group",
        partial(_describe_members, (messages.ConsumerGroupDescribeResponse, _topics_of_consumers)),
    ),
    make_rule(
        messages.StreamsGroupHeartbeatRequest,
        (needs.READ_GROUP, needs.DESCRIBE_TOPIC, needs.CREATE_TOPIC),
        "the response; Create, for internal topics that do not exist",
        _streams_heartbeat,
    ),
    make_rule(
        messages.StreamsGroupDescribeRequest,
        (needs.DESCRIBE_GROUP, needs.DESCRIBE_TOPIC),
        "each group",
        partial(_describe_members, (messages.StreamsGroupDescribeResponse, _topics_of_streams)),
    ),
]
