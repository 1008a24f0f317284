"""Determines the resources on which the sender of a request needs rights. No I/O."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol import admin as admin_messages
from kafka.protocol import metadata as metadata_messages
from kafka.protocol.consumer import LeaveGroupRequest

from sharegroup.gateway.client_identity.broker_rights import CLUSTER, Key
from sharegroup.gateway.wire.share_request_decoding import ShareAcknowledge, ShareFetch
from sharegroup.protocol import messages as share_messages
from sharegroup.security.acl import Resource

_GROUP_KEY_TYPE, _TRANSACTION_KEY_TYPE = 0, 1
_TOPIC_CONFIG, _GROUP_CONFIG = 2, 32
_FIRST_METADATA_WITH_NULL = 1


@dataclass(frozen=True)
class RequiredResources:
    """The resources on which a request requires rights.

    Attributes:
        keys: the resources whose names are known.
        topic_ids: the topics that the request identifies by id.
        has_all_topics: whether rights on all topics are required.
        has_all_groups: whether rights on all groups are required.
        creates: the names of topics that the brokers may create if they are missing, because the request allows it.
    """

    keys: frozenset[Key] = frozenset()
    topic_ids: frozenset[UUID] = frozenset()
    has_all_topics: bool = False
    has_all_groups: bool = False
    creates: frozenset[str] = frozenset()


def resources_of(body: Any, version: int) -> RequiredResources:
    """Return the resources on which a request requires rights. The result is empty if the request requires no rights.

    `body` is the request, and `version` is the version of its API.
    """
    found = _RESOURCES_OF.get(type(body))
    return RequiredResources() if found is None else found(body, version)


def _keys(resource: Resource, names: Iterable[str | None]) -> frozenset[Key]:
    return frozenset((resource, name) for name in names if name)


def _groups(*names: str | None) -> frozenset[Key]:
    return _keys(Resource.GROUP, names)


def _heartbeat(body: Any, _: int) -> RequiredResources:
    return RequiredResources(_groups(body.group_id) | _keys(Resource.TOPIC, body.subscribed_topic_names or ()))


def _share(body: ShareFetch | ShareAcknowledge, _: int) -> RequiredResources:
    return RequiredResources(_groups(body.group_id), frozenset(topic.topic_id for topic in body.topics))


def _metadata(body: Any, version: int) -> RequiredResources:
    if body.topics is None or (version < _FIRST_METADATA_WITH_NULL and not body.topics):
        return RequiredResources(frozenset({CLUSTER}), has_all_topics=True)
    names = {topic.name for topic in body.topics if topic.name}
    ids = frozenset(topic.topic_id for topic in body.topics if not topic.name and topic.topic_id is not None)
    creates = frozenset(names) if body.allow_auto_topic_creation else frozenset()
    return RequiredResources(_keys(Resource.TOPIC, names) | {CLUSTER}, ids, creates=creates)


def _find_coordinator(body: Any, _: int) -> RequiredResources:
    names = [*(body.coordinator_keys or ()), body.key]
    kinds = {_GROUP_KEY_TYPE: Resource.GROUP, _TRANSACTION_KEY_TYPE: Resource.TRANSACTIONAL_ID}
    kind = kinds.get(body.key_type or 0)
    return RequiredResources(frozenset({CLUSTER}) if kind is None else _keys(kind, names))


def _configs(body: Any, _: int) -> RequiredResources:
    kinds = {_TOPIC_CONFIG: Resource.TOPIC, _GROUP_CONFIG: Resource.GROUP}
    named = [(kinds[each.resource_type], each.resource_name) for each in body.resources if each.resource_type in kinds]
    return RequiredResources(frozenset(named) | {CLUSTER})


def _group_and_topics(body: Any, _: int) -> RequiredResources:
    return RequiredResources(_groups(body.group_id), has_all_topics=True)


_RESOURCES_OF: dict[type, Callable[[Any, int], RequiredResources]] = {
    share_messages.ShareGroupHeartbeatRequest: _heartbeat,
    ShareFetch: _share,
    ShareAcknowledge: _share,
    share_messages.ShareGroupDescribeRequest: lambda body, _: RequiredResources(
        _groups(*body.group_ids), has_all_topics=True
    ),
    share_messages.DescribeShareGroupOffsetsRequest: lambda body, _: RequiredResources(
        _groups(*(group.group_id for group in body.groups)), has_all_topics=True
    ),
    share_messages.AlterShareGroupOffsetsRequest: _group_and_topics,
    share_messages.DeleteShareGroupOffsetsRequest: _group_and_topics,
    metadata_messages.MetadataRequest: _metadata,
    metadata_messages.FindCoordinatorRequest: _find_coordinator,
    admin_messages.DeleteGroupsRequest: lambda body, _: RequiredResources(_groups(*body.groups_names)),
    LeaveGroupRequest: lambda body, _: RequiredResources(_groups(body.group_id)),
    admin_messages.DescribeConfigsRequest: _configs,
    admin_messages.AlterConfigsRequest: _configs,
    admin_messages.IncrementalAlterConfigsRequest: _configs,
    admin_messages.ListGroupsRequest: lambda _, __: RequiredResources(frozenset({CLUSTER}), has_all_groups=True),
    admin_messages.ListConfigResourcesRequest: lambda _, __: RequiredResources(frozenset({CLUSTER})),
    admin_messages.DescribeClusterRequest: lambda _, __: RequiredResources(frozenset({CLUSTER})),
}
