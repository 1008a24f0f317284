"""The rights that the caller of a request has, and the rights that the rules of the APIs require."""

import uuid
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource
from sharegroup.security.authorization import ERRORS, Authorization
from sharegroup.security.caller import Caller


class Need(NamedTuple):
    """A required right: an operation on a type of resource.

    If `or_on_cluster` is set, the right to perform the operation `or_on_cluster` on the cluster is also sufficient.
    """

    operation: Operation
    resource: Resource
    or_on_cluster: Operation | None = None


class TopicNames(NamedTuple):
    """Functions that return topic names from the gateway's metadata.

    `name_by_id` returns the name of the topic with an id, or None if the id is unknown. `all_names` returns the names
    of all topics.
    """

    name_by_id: Callable[[uuid.UUID], str | None]
    all_names: Callable[[], list[str]]


class RequestRights:
    """The rights of the caller of one request. Records denials, which `report_denials` writes to the audit log."""

    def __init__(self, security: Authorization, caller: Caller, names: TopicNames) -> None:
        self._security, self._caller, self._names = security, caller, names
        self._rejected: dict[tuple[Need, str], None] = {}
        #: Whether a topic id was unknown. If so, the request is authorized again after the metadata was refreshed.
        self.misses_ids = False

    @property
    def has_list(self) -> bool:
        """Whether the gateway has ACLs."""
        return self._security.has_list

    def authorize(self, need: Need, name: str = CLUSTER_NAME) -> ErrorCode | None:
        """Return the error if the right is denied, else None. A denial is recorded for the audit log."""
        if self.would_allow(need, name):
            return None
        self._rejected[need, name] = None
        return ERRORS[need.resource]

    def would_allow(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Return whether the right is granted, without recording a denial.

        Used for resources that the request does not name, and for rights that another right can replace.
        """
        operation, resource, on_cluster = need
        if resource is Resource.TOPIC and not self._security.is_shown(name):
            return False
        if on_cluster is not None and self._security.would_allow(self._caller, on_cluster, Resource.CLUSTER):
            return True
        return self._security.would_allow(self._caller, operation, resource, name)

    def would_allow_any(self, need: Need) -> bool:
        """Return whether the caller has the right `need` on at least one resource. A denial is not recorded."""
        return self._security.would_allow_any(self._caller, need.operation, need.resource)

    def reject_internal_topic(self, topic: str) -> ErrorCode | None:
        """Return an error if the topic is an internal topic of the job, else None. Record the denial for the audit log.

        Used for requests that do not require rights on their topics.
        """
        if self._security.is_shown(topic):
            return None
        self._rejected[Need(Operation.DESCRIBE, Resource.TOPIC), topic] = None
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def is_shown(self, topic: str) -> bool:
        """Return False for internal topics of the job, True for all other topics."""
        return self._security.is_shown(topic)

    def operations(self, resource: Resource, name: str) -> set[int]:
        """Return the numbers of the operations that the caller may perform on a resource (KIP-430)."""
        return self._security.operations(self._caller, resource, name)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of the topic with this id. If the id is unknown, set `misses_ids` and return None.

        Return None if `topic_id` is None.
        """
        if topic_id is None:
            return None
        name = self._names.name_by_id(topic_id)
        self.misses_ids = self.misses_ids or name is None
        return name

    def all_topics(self) -> list[str]:
        """Return the names of all topics."""
        return self._names.all_names()

    def report_denials(self) -> None:
        """Write each recorded denial once to the audit log. Call it after the whole request has been authorized."""
        for need, name in self._rejected:
            self._security.report_denied(self._caller, need.operation, need.resource, name)
