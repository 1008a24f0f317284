"""What the brokers let a client do, by their own word (AuthorizedOperations, KIP-430). PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource

#: A group, a topic, a transactional id, or the cluster.
Key = tuple[Resource, str]
CLUSTER: Key = (Resource.CLUSTER, CLUSTER_NAME)
_OF_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


@dataclass(frozen=True)
class BrokerRights:
    """The operations on each resource that was asked for; what was not asked for is not allowed.

    `listed_groups` are those that the client was shown in a list, so it may describe them. Brokers that know no configs
    of groups (`has_group_configs` is False) have no rights to them either: they are the cluster's then.
    """

    operations: Mapping[Key, Collection[int]]
    listed_groups: frozenset[str] = frozenset()
    has_group_configs: bool = True

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Whether the client may do it."""
        kind = Resource(resource)
        if operation in self.operations.get((kind, name), ()):
            return True
        if kind is not Resource.GROUP:
            return False
        if operation == Operation.DESCRIBE and name in self.listed_groups:
            return True
        of_cluster = operation in _OF_CONFIGS and not self.has_group_configs
        return of_cluster and operation in self.operations.get(CLUSTER, ())
