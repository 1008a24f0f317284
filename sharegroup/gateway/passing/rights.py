"""What one request may do: asked by the rules, need by need."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource
from sharegroup.security.authorization import ERRORS, Authorization
from sharegroup.security.caller import Caller


class Need(NamedTuple):
    """An operation on a kind of resource; where `or_on_cluster` is allowed, that is enough."""

    operation: Operation
    resource: Resource
    or_on_cluster: Operation | None = None


class Names(NamedTuple):
    """Topics as the gateway knows them: the name of an id, None for one that is not known; and all names."""

    of_id: Callable[[uuid.UUID], str | None]
    all: Callable[[], list[str]]


class Rights:
    """What the caller of one request may do. Each refusal is told to `security` once, by `tell`, when all is judged."""

    def __init__(self, security: Authorization, caller: Caller, names: Names) -> None:
        self._security, self._caller, self._names = security, caller, names
        self._refused: dict[tuple[Need, str], None] = {}
        #: Whether an id was asked for that is not known.
        self.misses_ids = False

    @property
    def has_list(self) -> bool:
        """Whether there is an access control list."""
        return self._security.has_list

    def refusal(self, need: Need, name: str = CLUSTER_NAME) -> ErrorCode | None:
        """Why the caller may not do what it has asked for, None if it may."""
        if self.would_allow(need, name):
            return None
        self._refused[need, name] = None
        return ERRORS[need.resource]

    def would_allow(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller may do what it has not asked for by name."""
        operation, resource, on_cluster = need
        if resource is Resource.TOPIC and not self._security.is_shown(name):
            return False
        if on_cluster is not None and self._security.would_allow(self._caller, on_cluster, Resource.CLUSTER):
            return True
        return self._security.would_allow(self._caller, operation, resource, name)

    def would_allow_any(self, need: Need) -> bool:
        """Whether there is a name for which the caller may do it."""
        return self._security.would_allow_any(self._caller, need.operation, need.resource)

    def hidden(self, topic: str) -> ErrorCode | None:
        """The refusal of a topic of the job's own, where nothing else is needed of a topic."""
        if self._security.is_shown(topic):
            return None
        self._refused[Need(Operation.DESCRIBE, Resource.TOPIC), topic] = None
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def is_shown(self, topic: str) -> bool:
        """Whether a topic is none of the job's own."""
        return self._security.is_shown(topic)

    def operations(self, resource: Resource, name: str) -> set[int]:
        """AuthorizedOperations of what is described."""
        return self._security.operations(self._caller, resource, name)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """The name of a topic by its id (None: all zeros), None where it is not known."""
        if topic_id is None:
            return None
        name = self._names.of_id(topic_id)
        self.misses_ids = self.misses_ids or name is None
        return name

    def all_topics(self) -> list[str]:
        """Every topic that is known."""
        return self._names.all()

    def tell(self) -> None:
        """All has been judged."""
        for need, name in self._refused:
            self._security.denied(self._caller, need.operation, need.resource, name)
