"""The access control list of the gateway, a YAML file. Operations that no entry allows are denied.

    - {principal: "User:alice", resource: group, name: orders, operations: [Read, Describe]}
    - {principal: "User:alice", resource: topic, prefix: order-, operations: [Read]}
    - {principal: "User:alice", resource: topic, name: order-secrets, operations: [All], permission: Deny}
    - {principal: "User:*", host: 10.0.0.7, resource: topic, name: "*", operations: [Describe]}
    - {principal: "User:admin", resource: cluster, operations: [All]}

Principals, operations and implied operations are the same as in Kafka's StandardAuthorizer. An entry that denies takes
precedence over all entries that allow. `All` stands for every operation. Permission for Read, Write, Delete or Alter
implies permission for Describe, and AlterConfigs implies DescribeConfigs. Denying an operation does not deny the
operations that it implies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import lru_cache
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sharegroup.errors import InvalidConfigError
from sharegroup.security.entry_file import read_entries


class Operation(IntEnum):
    """Kafka's operations, with their numbers on the wire."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(str, Enum):
    """The types of resources in entries."""

    GROUP = "group"
    TOPIC = "topic"
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"


class Permission(str, Enum):
    """The permission of an entry, with Kafka's names."""

    ALLOW = "Allow"
    DENY = "Deny"


#: The name of the cluster as a resource.
CLUSTER_NAME = "kafka-cluster"
ANY = "*"
#: Maximum number of cached results of `_patterns_of`, one for each caller, operation and resource type.
MAX_KEPT = 10_000

_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_BY_NAME = {operation.name.replace("_", "").lower(): operation for operation in Operation}


class AclEntry(BaseModel):
    """One entry of the access control list. It has either a `name` (`*` matches any name) or a `prefix`.

    An entry for the cluster has neither of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    principal: str = Field(pattern=r"^User:.")
    host: str = ANY
    resource: Resource
    name: str | None = Field(default=None, min_length=1)
    prefix: str | None = Field(default=None, min_length=1)
    operations: frozenset[Operation] = Field(min_length=1)
    permission: Permission = Permission.ALLOW

    @model_validator(mode="before")
    @classmethod
    def _operations_by_name(cls, entry: object) -> object:
        """Convert names of operations in any spelling, such as DescribeConfigs or describe_configs.

        Raises ValueError for unknown names.
        """
        if not isinstance(entry, dict) or not isinstance(entry.get("operations"), list):
            return entry
        names = [str(name) for name in entry["operations"]]
        operations = {name: _BY_NAME.get(name.replace("_", "").lower()) for name in names}
        if unknown := [name for name, operation in operations.items() if operation is None]:
            raise ValueError(f"unknown operations: {', '.join(unknown)}")
        return {**entry, "operations": frozenset(operations.values())}

    @field_validator("permission", mode="before")
    @classmethod
    def _permission_by_name(cls, name: object) -> object:
        """Accept the permission's name in upper or lower case."""
        return name.capitalize() if isinstance(name, str) else name

    @model_validator(mode="after")
    def _one_pattern(self) -> AclEntry:
        wanted = 0 if self.resource is Resource.CLUSTER else 1
        if (self.name is not None) + (self.prefix is not None) != wanted:
            problem = f"a {self.resource.value} needs either name or prefix"
            raise ValueError(problem if wanted else "an entry for the cluster must have neither name nor prefix")
        return self

    def covers(self, operation: Operation) -> bool:
        """Return whether the entry applies to the operation.

        An entry that allows an operation also applies to the operations that this operation implies.
        """
        implied_by = _IMPLIED_BY.get(operation, ()) if self.permission is Permission.ALLOW else ()
        return bool(self.operations & {Operation.ALL, operation, *implied_by})

    def is_for(self, host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether the entry applies to this address, operation and resource type.

        The entry's principal and its resource name or prefix are not compared.
        """
        return self.resource is resource and self.host in (ANY, host) and self.covers(operation)


class _Patterns(NamedTuple):
    """The resources that a set of ACL entries matches: names and prefixes. The name `*` matches any resource."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, entries: Iterable[AclEntry]) -> _Patterns:
        patterns = [(entry.name, entry.prefix) for entry in entries]
        names = (ANY if name is None else name for name, prefix in patterns if prefix is None)
        return cls(frozenset(names), tuple(prefix for _, prefix in patterns if prefix is not None))

    def fit(self, name: str) -> bool:
        return name in self.names or ANY in self.names or name.startswith(self.prefixes)

    def fit_all_with(self, prefix: str) -> bool:
        return ANY in self.names or prefix.startswith(self.prefixes)


class Acl:
    """The access control list. In all methods, `host` is the client's address."""

    def __init__(self, entries: Iterable[AclEntry]) -> None:
        self._entries: defaultdict[str, list[AclEntry]] = defaultdict(list)
        for entry in entries:
            self._entries[entry.principal].append(entry)
        #: The method `_patterns_of` with a cache, because one Metadata response checks thousands of names.
        self._patterns = lru_cache(MAX_KEPT)(self._patterns_of)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether an entry allows the operation on the resource and no entry denies it."""
        allowed, denied = self._patterns(principal, host, operation, resource)
        return allowed.fit(name) and not denied.fit(name)

    def allows_any(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether the caller may perform the operation on at least one resource of the type.

        This is the case if an entry allows the operation, and no other entry denies it for all resources that the
        allowing entry matches. See Kafka's `Authorizer.authorizeByResourceType`.
        """
        allowed, denied = self._patterns(principal, host, operation, resource)
        return any(not denied.fit(name) for name in allowed.names) or any(
            not denied.fit_all_with(prefix) for prefix in allowed.prefixes
        )

    def _patterns_of(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> tuple[_Patterns, _Patterns]:
        """Return (allowed patterns, denied patterns) of the entries for this caller, operation and resource type."""
        entries = [
            entry
            for who in (principal, f"User:{ANY}")
            for entry in self._entries.get(who, ())
            if entry.is_for(host, operation, resource)
        ]
        allowed = _Patterns.of(entry for entry in entries if entry.permission is Permission.ALLOW)
        return allowed, _Patterns.of(entry for entry in entries if entry.permission is Permission.DENY)


def load_acl(path: str) -> Acl:
    """Read the access control list from a file. Raises InvalidConfigError if it is invalid or cannot be read."""
    parsed, problems = read_entries(path, AclEntry)
    if problems:
        raise InvalidConfigError(path, problems)
    return Acl(parsed)
