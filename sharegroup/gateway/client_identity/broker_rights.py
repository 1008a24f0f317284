"""The rights of a client at the brokers, from the AuthorizedOperations in their responses (KIP-430). No I/O."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sharegroup.security.acl import CLUSTER_NAME, Operation, Resource

#: A resource as (type, name). Its type is group, topic, transactional id or cluster.
Key = tuple[Resource, str]
CLUSTER: Key = (Resource.CLUSTER, CLUSTER_NAME)
_OF_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


@dataclass(frozen=True)
class BrokerRights:
    """The operations that a client may perform on resources of the brokers.

    Attributes:
        operations: {resource as (type, name): ids of the allowed operations}.
        listed_groups: the groups that a broker listed for the client. The client may describe these groups too.
        has_group_configs: whether the brokers support configs of groups. If they do not, a client that may describe or
            alter the configs of the cluster may do the same with group configs.
    """

    operations: Mapping[Key, Collection[int]]
    listed_groups: frozenset[str] = frozenset()
    has_group_configs: bool = True

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Return whether the client may perform `operation` on the resource of type `resource` with this name."""
        kind = Resource(resource)
        if operation in self.operations.get((kind, name), ()):
            return True
        if kind is not Resource.GROUP:
            return False
        if operation == Operation.DESCRIBE and name in self.listed_groups:
            return True
        of_cluster = operation in _OF_CONFIGS and not self.has_group_configs
        return of_cluster and operation in self.operations.get(CLUSTER, ())
