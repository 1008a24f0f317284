"""The rights of a client at the brokers, as the brokers return them (AuthorizedOperations, KIP-430). No I/O."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource

#: A group, a topic, a transactional id, or the cluster.
Key = tuple[Resource, str]
CLUSTER: Key = (Resource.CLUSTER, CLUSTER_NAME)
_OF_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


@dataclass(frozen=True)
class BrokerRights:
    """The operations that a client may perform on each resource that was queried; on all others it may perform none.

    `listed_groups` are the groups that a broker listed for the client, so it may describe them. If the brokers do not
    support group configs (`has_group_configs` is False), the client's rights on the cluster's configs apply to them.
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
