"""What a caller may do: the access control list, the job's own topics, and what the gateway's own APIs need (KIP-932).

    request                          on the group       on its topics
    ShareGroupHeartbeat              Read               Describe, on those subscribed to
    ShareFetch, ShareAcknowledge     Read               Read
    ShareGroupDescribe               Describe           Describe
    DescribeShareGroupOffsets        Describe           Describe
    AlterShareGroupOffsets           Read               Read
    DeleteShareGroupOffsets          Delete             Read
    DeleteGroups                     Delete
    LeaveGroup, of a share group     Read
    ListGroups                       Describe           (or Describe on the cluster)
    FindCoordinator                  Describe           (or Describe on the transactional id)
    DescribeConfigs                                     DescribeConfigs on the resource
    AlterConfigs, IncrementalAlterConfigs               AlterConfigs on the resource
    ListConfigResources                                 DescribeConfigs on the cluster
    Metadata                                            Describe; Create, to have one made
    DescribeCluster                  (nothing)

What the requests that go on to the brokers need is in `passing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.security import audit
from sharegroup.security.acl import CLUSTER_NAME, Acl, Operation, Resource
from sharegroup.security.caller import Caller

ERRORS: Final = {
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
#: Kafka's `AclEntry.supportedOperations`: those that are told as AuthorizedOperations.
_OPERATIONS: Final = {
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def bit_field(operations: Iterable[int]) -> int:
    """AuthorizedOperations on the wire: one bit for each, by its number."""
    return sum(1 << operation for operation in operations)


class Authorization:
    """Checks what a caller may do; without a list everything is allowed, but for the job's own topics.

    A caller whose rights are the brokers' (`gateway.upstream.identity: client`) has those, and there is no list.

    Nobody reaches `hidden_topics` through the gateway: whoever writes there is the job or a member to the job.

    The methods named after a request raise RequestError (GROUP_, TOPIC_, TRANSACTIONAL_ID_ or
    CLUSTER_AUTHORIZATION_FAILED) for what the caller may not do. Topics that a request names beside its group are asked
    for one by one, with `may_...`, since each has an error of its own in the response.
    """

    def __init__(self, acl: Acl | None, hidden_topics: Iterable[str] = ()) -> None:
        self._acl, self._hidden = acl, frozenset(hidden_topics)

    def use(self, acl: Acl) -> None:
        """From now on the list is this one."""
        self._acl = acl

    @property
    def has_list(self) -> bool:
        """Whether there is an access control list."""
        return self._acl is not None

    def judges(self, caller: Caller) -> bool:
        """Whether the caller's rights are others than the gateway's own at the brokers."""
        return self.has_list or caller.rights is not None

    @property
    def hides_topics(self) -> bool:
        """Whether there are topics that nobody reaches."""
        return bool(self._hidden)

    # -- every decision ----------------------------------------------------------------------------------------------

    def allows(self, caller: Caller, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller may do what it asks for; if not, that is in the log."""
        is_allowed = self.would_allow(caller, operation, resource, name)
        if not is_allowed:
            self.denied(caller, operation, resource, name)
        return is_allowed

    def would_allow(self, caller: Caller, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """The same of what the caller has not asked for, such as the next topic of a list of all: no refusal."""
        if resource is Resource.TOPIC and name in self._hidden:
            return False
        if caller.rights is not None:
            return caller.rights.allows(int(operation), resource.value, name)
        return self._acl is None or self._acl.allows(caller.principal, caller.host, operation, resource, name)

    def would_allow_any(self, caller: Caller, operation: Operation, resource: Resource) -> bool:
        """Whether there is a name for which the caller may do it."""
        return self._acl is None or self._acl.allows_any(caller.principal, caller.host, operation, resource)

    def denied(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        """Each refusal is told here, and only here."""
        audit.access_refused(caller, operation.name, resource.value, name)

    # -- the whole request -------------------------------------------------------------------------------------------

    def heartbeat(self, caller: Caller, group_id: str, topics: Iterable[str] = ()) -> None:
        """ShareGroupHeartbeat; `topics` is the subscription that it names."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)
        for topic in topics:
            self._need(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def fetch(self, caller: Caller, group_id: str) -> None:
        """ShareFetch and ShareAcknowledge, without their topics: see `may_read`."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def describe_group(self, caller: Caller, group_id: str, topics: Iterable[str] = ()) -> None:
        """ShareGroupDescribe, with all topics that the group's members have; DescribeShareGroupOffsets, with none."""
        self._need(caller, Operation.DESCRIBE, Resource.GROUP, group_id)
        for topic in topics:
            self._need(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def alter_offsets(self, caller: Caller, group_id: str) -> None:
        """AlterShareGroupOffsets, without its topics: see `may_read`."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def delete_offsets(self, caller: Caller, group_id: str) -> None:
        """DeleteShareGroupOffsets, without its topics: see `may_read`."""
        self._need(caller, Operation.DELETE, Resource.GROUP, group_id)

    def delete_group(self, caller: Caller, group_id: str) -> None:
        """DeleteGroups, of one group."""
        self._need(caller, Operation.DELETE, Resource.GROUP, group_id)

    def leave_group(self, caller: Caller, group_id: str) -> None:
        """LeaveGroup of a share group: members are removed, or the group is rebalanced (KIP-345)."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def find_coordinator(self, caller: Caller, resource: Resource, key: str) -> None:
        """FindCoordinator of one group or transactional id; on the cluster, of share-partitions, which brokers ask."""
        if resource is Resource.CLUSTER:
            self._need(caller, Operation.CLUSTER_ACTION, resource, CLUSTER_NAME)
        else:
            self._need(caller, Operation.DESCRIBE, resource, key)

    def describe_configs(self, caller: Caller, resource: Resource, name: str) -> None:
        """DescribeConfigs, of one resource: a group, a topic, or else the cluster."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, resource, name)

    def alter_configs(self, caller: Caller, resource: Resource, name: str) -> None:
        """AlterConfigs and IncrementalAlterConfigs, of one resource."""
        self._need(caller, Operation.ALTER_CONFIGS, resource, name)

    def list_config_resources(self, caller: Caller) -> None:
        """ListConfigResources, which is about the cluster."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)

    # -- parts of it -------------------------------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Whether records of the topic may be fetched and acknowledged, and its offsets changed."""
        return self.allows(caller, Operation.READ, Resource.TOPIC, topic)

    def may_create(self, caller: Caller, topic: str) -> bool:
        """Whether a topic that is not there may be made for the caller who names it in a Metadata request."""
        return self.is_shown(topic) and (
            self.would_allow(caller, Operation.CREATE, Resource.CLUSTER)
            or self.would_allow(caller, Operation.CREATE, Resource.TOPIC, topic)
        )

    def may_see(self, caller: Caller, topic: str) -> bool:
        """Whether the topic may be described."""
        return self.would_allow(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def is_shown(self, topic: str) -> bool:
        """Whether it is not one of the job's own, which nobody sees."""
        return topic not in self._hidden

    def may_see_group(self, caller: Caller, group_id: str) -> bool:
        """Whether the group may be listed."""
        return self.would_allow(caller, Operation.DESCRIBE, Resource.CLUSTER) or self.would_allow(
            caller, Operation.DESCRIBE, Resource.GROUP, group_id
        )

    def operations(self, caller: Caller, resource: Resource, name: str = CLUSTER_NAME) -> set[int]:
        """What the caller may do with what is described, by number: AuthorizedOperations (KIP-430)."""
        return {int(op) for op in _OPERATIONS[resource] if self.would_allow(caller, op, resource, name)}

    def _need(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        if not self.allows(caller, operation, resource, name):
            what = f"{operation.name} on {resource.value} {name}"
            raise RequestError(ERRORS[resource], f"{caller.principal} is not authorized: {what}")
