"""The access control list of the gateway: a YAML file that says who may do what. What it does not allow is denied.

    - {principal: "User:alice", resource: group, name: orders, operations: [Read, Describe]}
    - {principal: "User:alice", resource: topic, prefix: order-, operations: [Read]}
    - {principal: "User:*", host: 10.0.0.7, resource: topic, name: "*", operations: [Describe]}
    - {principal: "User:admin", resource: cluster, operations: [All]}

Principals, operations and what they imply are Kafka's: All allows everything; Read, Write, Delete and Alter allow
Describe; AlterConfigs allows DescribeConfigs. There are no denying entries: to deny is not to allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sharegroup.errors import InvalidConfigError


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
    """What an entry is about."""

    GROUP = "group"
    TOPIC = "topic"
    CLUSTER = "cluster"


#: The one cluster's name.
CLUSTER_NAME = "kafka-cluster"
ANY = "*"

_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_BY_NAME = {operation.name.replace("_", "").lower(): operation for operation in Operation}


class AclEntry(BaseModel):
    """One entry. Exactly one of `name` (`*`: any) and `prefix` for groups and topics, neither for the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    principal: str = Field(pattern=r"^User:.")
    host: str = ANY
    resource: Resource
    name: str | None = Field(default=None, min_length=1)
    prefix: str | None = Field(default=None, min_length=1)
    operations: frozenset[Operation] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _operations_by_name(cls, entry: object) -> object:
        """Kafka's names, in any case: DescribeConfigs, describe_configs."""
        if not isinstance(entry, dict) or not isinstance(entry.get("operations"), list):
            return entry
        names = [str(name) for name in entry["operations"]]
        operations = {name: _BY_NAME.get(name.replace("_", "").lower()) for name in names}
        if unknown := [name for name, operation in operations.items() if operation is None]:
            raise ValueError(f"unknown operations: {', '.join(unknown)}")
        return {**entry, "operations": frozenset(operations.values())}

    @model_validator(mode="after")
    def _one_pattern(self) -> AclEntry:
        wanted = 0 if self.resource is Resource.CLUSTER else 1
        if (self.name is not None) + (self.prefix is not None) != wanted:
            raise ValueError("a group or topic needs either name or prefix" if wanted else "the cluster has no name")
        return self

    def matches(self, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the entry allows this to its principal."""
        if self.resource is not resource or self.host not in (ANY, host):
            return False
        if not self.operations & {Operation.ALL, operation, *_IMPLIED_BY.get(operation, ())}:
            return False
        if self.prefix is not None:
            return name.startswith(self.prefix)
        return self.name in (None, ANY, name)


class Acl:
    """All entries, by principal."""

    def __init__(self, entries: Iterable[AclEntry]) -> None:
        self._entries: defaultdict[str, list[AclEntry]] = defaultdict(list)
        for entry in entries:
            self._entries[entry.principal].append(entry)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether any entry allows it; `host` is the client's address."""
        return any(
            entry.matches(host, operation, resource, name)
            for who in (principal, f"User:{ANY}")
            for entry in self._entries.get(who, ())
        )


def load_acl(path: str) -> Acl:
    """Read the file. Raises InvalidConfigError, also when it cannot be read."""
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidConfigError(path, [f"cannot be read: {error}"]) from error
    if not isinstance(entries, list):
        raise InvalidConfigError(path, ["must be a list of entries"])
    problems: list[str] = []
    parsed = list(_parsed(entries, problems))
    if problems:
        raise InvalidConfigError(path, problems)
    return Acl(parsed)


def _parsed(entries: list[object], problems: list[str]) -> Iterator[AclEntry]:
    for number, entry in enumerate(entries, start=1):
        try:
            yield AclEntry.model_validate(entry)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                where = ".".join(str(part) for part in detail["loc"])
                problems.append(f"entry {number}{': ' + where if where else ''}: {detail['msg']}")
