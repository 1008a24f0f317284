"""The rights of one request's caller, and the rights that rules require."""

import uuid
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource
from sharegroup.security.authorization import ERRORS, Authorization
from sharegroup.security.caller import Caller


class Need(NamedTuple):
    """An operation on a type of resource. The operation `or_on_cluster` on the cluster is sufficient, too."""

    operation: Operation
    resource: Resource
    or_on_cluster: Operation | None = None


class TopicNames(NamedTuple):
    """The topics in the gateway's metadata. `name_by_id` returns None for an unknown id."""

    name_by_id: Callable[[uuid.UUID], str | None]
    all_names: Callable[[], list[str]]


class RequestRights:
    """The rights of one request's caller. Collects denials, which `report_denials` writes to the audit log."""

    def __init__(self, security: Authorization, caller: Caller, names: TopicNames) -> None:
        self._security, self._caller, self._names = security, caller, names
        self._rejected: dict[tuple[Need, str], None] = {}
        #: Whether an unknown topic id was requested.
        self.misses_ids = False

    @property
    def has_list(self) -> bool:
        """Return whether there is an access control list."""
        return self._security.has_list

    def authorize(self, need: Need, name: str = CLUSTER_NAME) -> ErrorCode | None:
        """Return the error for an operation that the caller requested, None if it is allowed. Records a denial."""
        if self.would_allow(need, name):
            return None
        self._rejected[need, name] = None
        return ERRORS[need.resource]

    def would_allow(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Return whether an operation is allowed, without recording a denial: the caller did not name the resource."""
        operation, resource, on_cluster = need
        if resource is Resource.TOPIC and not self._security.is_shown(name):
            return False
        if on_cluster is not None and self._security.would_allow(self._caller, on_cluster, Resource.CLUSTER):
            return True
        return self._security.would_allow(self._caller, operation, resource, name)

    def would_allow_any(self, need: Need) -> bool:
        """Return whether the operation is allowed on any resource of the type."""
        return self._security.would_allow_any(self._caller, need.operation, need.resource)

    def reject_internal_topic(self, topic: str) -> ErrorCode | None:
        """Return the error for an internal topic of the job, None for others. For requests that need no topic right."""
        if self._security.is_shown(topic):
            return None
        self._rejected[Need(Operation.DESCRIBE, Resource.TOPIC), topic] = None
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def is_shown(self, topic: str) -> bool:
        """Return whether a topic is not an internal topic of the job."""
        return self._security.is_shown(topic)

    def operations(self, resource: Resource, name: str) -> set[int]:
        """Return the AuthorizedOperations of a resource."""
        return self._security.operations(self._caller, resource, name)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of a topic id (None: all zeros), None if it is unknown."""
        if topic_id is None:
            return None
        name = self._names.name_by_id(topic_id)
        self.misses_ids = self.misses_ids or name is None
        return name

    def all_topics(self) -> list[str]:
        """Return every known topic."""
        return self._names.all_names()

    def report_denials(self) -> None:
        """Report all recorded denials once, after the whole request has been authorized."""
        for need, name in self._rejected:
            self._security.report_denied(self._caller, need.operation, need.resource, name)
