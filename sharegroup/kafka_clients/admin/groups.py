"""Requests about groups and their members: ListGroups, ShareGroupDescribe, DeleteGroups, LeaveGroup."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaError,
    UnknownBrokerIdError,
)
from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import LeaveGroupRequest

from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.errors import check, error_of
from sharegroup.kafka_clients.admin.results import Coordinator, GroupListing, MemberDescription, ShareGroupDescription
from sharegroup.protocol.messages import ShareGroupDescribeRequest
from sharegroup.protocol.rows.share_group_fields import ALL_AWAY, MemberIdentity

#: The first version of ListGroups that filters by type.
_TYPES_VERSION = 5
#: The first version of LeaveGroup with a list of members.
_MEMBERS_VERSION = 3
_LEAVE_ERRORS = {InvalidRequestError.errno: "The group has no members to be rebalanced."}
_NOT_ASKED_FOR = -(2**31)


def list_groups(brokers: Brokers, states: Collection[str], types: Collection[str]) -> list[GroupListing]:
    """Return the groups of all brokers, sorted by id. Empty filters match all groups."""

    def listed(node_id: int) -> Any:
        request = ListGroupsRequest(
            states_filter=sorted(states), types_filter=sorted(types), min_version=_TYPES_VERSION if types else 0
        )
        try:
            response = brokers.request_once(request, node_id)
        except UnknownBrokerIdError:
            if node_id in brokers.node_ids():
                raise
            return []  # the broker left meanwhile, such as a standby gateway
        check(response.error_code)
        return response.groups

    found = {
        GroupListing(row.group_id, row.group_state, row.group_type, row.protocol_type)
        for node_id in brokers.node_ids()
        for row in brokers.retry(partial(listed, node_id))
    }
    return sorted(found)


def describe_groups(
    brokers: Brokers, group_ids: Collection[str], include_authorized_operations: bool
) -> dict[str, ShareGroupDescription | KafkaError]:
    def exchange(coordinator: Coordinator, ids: list[str]) -> dict[str, ShareGroupDescription | KafkaError]:
        request = ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=include_authorized_operations)
        response = brokers.request_once(request, coordinator.node_id)
        return {
            group.group_id: error_of(group.error_code, group.error_message) or _description(group, coordinator)
            for group in response.groups
        }

    return brokers.request_coordinators(group_ids, exchange)


def delete_groups(brokers: Brokers, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
    """Delete groups of any type. Return {group: error}, None for deleted groups."""

    def exchange(coordinator: Coordinator, ids: list[str]) -> dict[str, KafkaError | None]:
        response = brokers.request_once(DeleteGroupsRequest(groups_names=ids), coordinator.node_id)
        return {result.group_id: error_of(result.error_code) for result in response.results}

    return brokers.request_coordinators(group_ids, exchange)


def remove_members(
    brokers: Brokers, group_id: str, members: Iterable[MemberIdentity]
) -> dict[MemberIdentity, KafkaError | None]:
    """Remove members. Return {member: error}, None for removed members.

    Raises KafkaError if the whole request fails.
    """
    named = [LeaveGroupRequest.MemberIdentity(member_id=m, group_instance_id=name) for m, name in members]
    request = LeaveGroupRequest(group_id=group_id, members=named, min_version=_MEMBERS_VERSION)

    def exchange(coordinator: Coordinator, ids: list[str]) -> dict[str, Any]:
        response = brokers.request_once(request, coordinator.node_id)
        error = error_of(response.error_code, _LEAVE_ERRORS.get(response.error_code))
        return dict.fromkeys(ids, error or response.members)

    result = brokers.request_coordinators([group_id], exchange)[group_id]
    if isinstance(result, KafkaError):
        raise result
    return {MemberIdentity(m.member_id, m.group_instance_id): error_of(m.error_code) for m in result}


def rebalance(brokers: Brokers, group_id: str) -> list[MemberIdentity]:
    """Remove the static members that have left temporarily, run the assignor, and return the removed members.

    The request is a LeaveGroup request for one member that has neither an id nor a group instance id. This project's
    server interprets such a request as a rebalance. Kafka's brokers respond that this member is unknown. In this case,
    GroupIdNotFoundError is raised. Other errors are those of `remove_members`.
    """
    left = remove_members(brokers, group_id, [ALL_AWAY])
    if left.get(ALL_AWAY) is not None:  # a broker reports this member as unknown
        raise GroupIdNotFoundError(f"Group {group_id} does not exist or is not a share group of a share-group gateway.")
    return list(left)


def _description(group: Any, coordinator: Coordinator) -> ShareGroupDescription:
    operations = group.authorized_operations
    return ShareGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        coordinator,
        tuple(sorted(_member(member) for member in group.members)),
        None if operations == _NOT_ASKED_FOR else frozenset(bit for bit in range(32) if operations >> bit & 1),
    )


def _member(member: Any) -> MemberDescription:
    assigned = [
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    ]
    return MemberDescription(
        member.member_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.rack_id,
        tuple(sorted(member.subscribed_topic_names)),
        tuple(sorted(assigned)),
    )
