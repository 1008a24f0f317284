"""The rights of a client at the brokers, as the brokers return them (AuthorizedOperations, KIP-430). PURE."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource

#: A group, a topic, a transactional id, or the cluster.
Key = tuple[Resource, str]
CLUSTER: Key = (Resource.CLUSTER, CLUSTER_NAME)
_OF_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


@dataclass(frozen=True)
class BrokerRights:
    """The allowed operations on each resource that was queried. Other resources are not allowed.

    `listed_groups` are the groups that a broker listed for the client, so it may describe them. Brokers without group
    configs (`has_group_configs` is False) have no rights on them, so the rights on the cluster's configs apply.
    """

    operations: Mapping[Key, Collection[int]]
    listed_groups: frozenset[str] = frozenset()
    has_group_configs: bool = True

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Return whether the client may perform an operation."""
        kind = Resource(resource)
        if operation in self.operations.get((kind, name), ()):
            return True
        if kind is not Resource.GROUP:
            return False
        if operation == Operation.DESCRIBE and name in self.listed_groups:
            return True
        of_cluster = operation in _OF_CONFIGS and not self.has_group_configs
        return of_cluster and operation in self.operations.get(CLUSTER, ())
