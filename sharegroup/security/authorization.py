"""Authorization: the access control list, the internal topics of the job, and the rights that requests need (KIP-932).

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
    FindCoordinator                  Describe           (or Describe on the transactional id; ClusterAction on the
                                                        cluster for a share-partition)
    DescribeConfigs                                     DescribeConfigs on the resource
    AlterConfigs, IncrementalAlterConfigs               AlterConfigs on the resource
    ListConfigResources                                 DescribeConfigs on the cluster
    Metadata                                            Describe; Create, to create a topic
    DescribeCluster                  (nothing)

The rights of requests that are forwarded to the brokers are in `sharegroup.gateway.passthrough`.
"""

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
#: {resource type: operations that AuthorizedOperations may contain}, from Kafka's `AclEntry.supportedOperations`.
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


def encode_operations(operations: Iterable[int]) -> int:
    """Return AuthorizedOperations: an integer in which the bit with the number of each operation is set."""
    return sum(1 << operation for operation in operations)


class Authorization:
    """Authorizes requests of clients by an access control list.

    Without a list, everything is allowed except access to the job's internal topics (`hidden_topics`). No client may
    access these topics through the gateway, because only the job and its members may write to them.

    With `gateway.upstream.identity: client`, the caller's rights at the brokers (`Caller.rights`) apply instead of the
    list.

    The methods `authorize_...` raise RequestError (GROUP_, TOPIC_, TRANSACTIONAL_ID_ or CLUSTER_AUTHORIZATION_FAILED)
    if the caller lacks a right. If each topic of a request has its own error in the response, the topics are authorized
    one by one with the methods `may_...`.
    """

    def __init__(self, acl: Acl | None, hidden_topics: Iterable[str] = ()) -> None:
        self._acl, self._hidden = acl, frozenset(hidden_topics)

    def replace_list(self, acl: Acl) -> None:
        self._acl = acl

    @property
    def has_list(self) -> bool:
        """Return whether there is an access control list."""
        return self._acl is not None

    def has_own_rights(self, caller: Caller) -> bool:
        """Return whether the caller's rights can differ from the gateway's own rights at the brokers."""
        return self.has_list or caller.rights is not None

    @property
    def has_hidden_topics(self) -> bool:
        """Return whether there are topics that no client may access."""
        return bool(self._hidden)

    # -- every decision ----------------------------------------------------------------------------------------------

    def allows(self, caller: Caller, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether the caller may perform an operation that it requested. A denial is logged."""
        is_allowed = self.would_allow(caller, operation, resource, name)
        if not is_allowed:
            self.report_denied(caller, operation, resource, name)
        return is_allowed

    def would_allow(self, caller: Caller, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether the caller may perform an operation, as `allows` does, but do not log a denial.

        Used for resources that the caller did not name, such as the topics in a response that lists all topics.
        """
        if resource is Resource.TOPIC and name in self._hidden:
            return False
        if caller.rights is not None:
            return caller.rights.allows(int(operation), resource.value, name)
        return self._acl is None or self._acl.allows(caller.principal, caller.host, operation, resource, name)

    def would_allow_any(self, caller: Caller, operation: Operation, resource: Resource) -> bool:
        """Return whether the access control list allows the operation on at least one resource of the type.

        Without a list, return True. A denial is not logged.
        """
        return self._acl is None or self._acl.allows_any(caller.principal, caller.host, operation, resource)

    def report_denied(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        """Log a denial. Every denial is reported through this method."""
        audit.log_denied_access(caller, operation.name, resource.value, name)

    # -- the whole request -------------------------------------------------------------------------------------------

    def authorize_heartbeat(self, caller: Caller, group_id: str, topics: Iterable[str] = ()) -> None:
        """Authorize ShareGroupHeartbeat. `topics` are the topics that the member subscribes to."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)
        for topic in topics:
            self._need(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def authorize_fetch(self, caller: Caller, group_id: str) -> None:
        """Authorize the group of a ShareFetch or ShareAcknowledge. Its topics are authorized with `may_read`."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def authorize_describe_group(self, caller: Caller, group_id: str, topics: Iterable[str] = ()) -> None:
        """Authorize ShareGroupDescribe or DescribeShareGroupOffsets.

        For ShareGroupDescribe, `topics` are the topics of all members. For DescribeShareGroupOffsets, it is empty,
        because each topic is authorized with `may_see`.
        """
        self._need(caller, Operation.DESCRIBE, Resource.GROUP, group_id)
        for topic in topics:
            self._need(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def authorize_alter_offsets(self, caller: Caller, group_id: str) -> None:
        """Authorize AlterShareGroupOffsets of a group. Its topics are authorized with `may_read`."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def authorize_delete_offsets(self, caller: Caller, group_id: str) -> None:
        """Authorize DeleteShareGroupOffsets of a group. Its topics are authorized with `may_read`."""
        self._need(caller, Operation.DELETE, Resource.GROUP, group_id)

    def authorize_delete_group(self, caller: Caller, group_id: str) -> None:
        self._need(caller, Operation.DELETE, Resource.GROUP, group_id)

    def authorize_leave_group(self, caller: Caller, group_id: str) -> None:
        """Authorize a LeaveGroup request for a share group. The request removes members (KIP-345)."""
        self._need(caller, Operation.READ, Resource.GROUP, group_id)

    def authorize_find_coordinator(self, caller: Caller, resource: Resource, key: str) -> None:
        """Authorize FindCoordinator of a group, a transactional id, or a share-partition.

        A share-partition (`resource` is CLUSTER) needs CLUSTER_ACTION on the cluster. Groups and transactional
        ids need DESCRIBE.
        """
        if resource is Resource.CLUSTER:
            self._need(caller, Operation.CLUSTER_ACTION, resource, CLUSTER_NAME)
        else:
            self._need(caller, Operation.DESCRIBE, resource, key)

    def authorize_describe_configs(self, caller: Caller, resource: Resource, name: str) -> None:
        """Authorize DescribeConfigs of one resource: a group, a topic or the cluster."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, resource, name)

    def authorize_alter_configs(self, caller: Caller, resource: Resource, name: str) -> None:
        """Authorize AlterConfigs and IncrementalAlterConfigs of one resource."""
        self._need(caller, Operation.ALTER_CONFIGS, resource, name)

    def authorize_list_config_resources(self, caller: Caller) -> None:
        """Authorize ListConfigResources, which needs a right on the cluster."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)

    # -- single topics and groups ------------------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Return whether the caller may fetch and acknowledge records of the topic and change its offsets."""
        return self.allows(caller, Operation.READ, Resource.TOPIC, topic)

    def may_create(self, caller: Caller, topic: str) -> bool:
        """Return whether a missing topic may be created for a caller that names it in a Metadata request."""
        return self.is_shown(topic) and (
            self.would_allow(caller, Operation.CREATE, Resource.CLUSTER)
            or self.would_allow(caller, Operation.CREATE, Resource.TOPIC, topic)
        )

    def may_see(self, caller: Caller, topic: str) -> bool:
        """Return whether the caller may describe the topic."""
        return self.would_allow(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def is_shown(self, topic: str) -> bool:
        """Return whether the topic may be shown to clients. Internal topics of the job are not shown."""
        return topic not in self._hidden

    def may_see_group(self, caller: Caller, group_id: str) -> bool:
        """Return whether ListGroups may return the group to the caller."""
        return self.would_allow(caller, Operation.DESCRIBE, Resource.CLUSTER) or self.would_allow(
            caller, Operation.DESCRIBE, Resource.GROUP, group_id
        )

    def operations(self, caller: Caller, resource: Resource, name: str = CLUSTER_NAME) -> set[int]:
        """Return the operations that the caller may perform on a resource: AuthorizedOperations (KIP-430)."""
        return {int(op) for op in _OPERATIONS[resource] if self.would_allow(caller, op, resource, name)}

    def _need(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        if not self.allows(caller, operation, resource, name):
            what = f"{operation.name} on {resource.value} {name}"
            raise RequestError(ERRORS[resource], f"{caller.principal} is not authorized: {what}")
