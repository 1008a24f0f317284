"""What each share group request needs (KIP-932, "Security"), checked against the access control list.

    request                          on the group       on its topics
    ShareGroupHeartbeat              Read               Describe, on those subscribed to
    ShareFetch, ShareAcknowledge     Read               Read
    ShareGroupDescribe               Describe           Describe
    DescribeShareGroupOffsets        Describe           Describe
    AlterShareGroupOffsets           Read               Read
    DeleteShareGroupOffsets          Delete             Read
    DeleteGroups                     Delete
    ListGroups                       Describe           (or Describe on the cluster)
    FindCoordinator                  Describe
    DescribeConfigs, IncrementalAlterConfigs            DescribeConfigs, AlterConfigs on the group
    ListConfigResources                                 DescribeConfigs on the cluster
    Metadata                                            Describe

What passes through undecoded goes upstream with the gateway's own rights, so that nothing can be told apart there: it
needs All on the cluster. Who may not send it loses his connection by it, as Kafka's protocol has no answer for the
unknown; what clients send unasked is therefore not offered to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.security import audit
from sharegroup.gateway.security.acl import CLUSTER_NAME, Acl, Operation, Resource
from sharegroup.gateway.wire.request import Caller

_ERRORS: Final = {
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
_GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
#: GetTelemetrySubscriptions and PushTelemetry: Java's clients send them by themselves, to whoever offers them.
_TELEMETRY: Final = frozenset({71, 72})


class Authorization:
    """Checks what a caller may do; without a list everything is allowed.

    The methods named after a request raise RequestError (GROUP_, TOPIC_ or CLUSTER_AUTHORIZATION_FAILED) for what the
    caller may not do. Topics that a request names beside its group are asked for one by one, with `may_...`, since
    each has an error of its own in the response.
    """

    def __init__(self, acl: Acl | None) -> None:
        self._acl = acl

    def use(self, acl: Acl) -> None:
        """From now on the list is this one."""
        self._acl = acl

    def offers(self, api_key: int) -> bool:
        """Whether clients are told of an API that passes through: all alike, since they ask before their login, too."""
        return self._acl is None or api_key not in _TELEMETRY

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

    def find_coordinator(self, caller: Caller, group_id: str) -> None:
        """FindCoordinator, of one group."""
        self._need(caller, Operation.DESCRIBE, Resource.GROUP, group_id)

    def describe_configs(self, caller: Caller, group_id: str) -> None:
        """DescribeConfigs, of one GROUP resource."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, Resource.GROUP, group_id)

    def alter_configs(self, caller: Caller, group_id: str) -> None:
        """IncrementalAlterConfigs, of one GROUP resource."""
        self._need(caller, Operation.ALTER_CONFIGS, Resource.GROUP, group_id)

    def list_config_resources(self, caller: Caller) -> None:
        """ListConfigResources, which is about the cluster."""
        self._need(caller, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)

    def pass_through(self, caller: Caller) -> None:
        """Anything that the gateway does not decode, and what it asks the broker in the caller's place."""
        self._need(caller, Operation.ALL, Resource.CLUSTER, CLUSTER_NAME)

    # -- parts of it -------------------------------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Whether records of the topic may be fetched and acknowledged, and its offsets changed."""
        if self._may(caller, Operation.READ, Resource.TOPIC, topic):
            return True
        self._refused(caller, Operation.READ, Resource.TOPIC, topic)
        return False

    def may_see(self, caller: Caller, topic: str) -> bool:
        """Whether the topic may be described."""
        return self._may(caller, Operation.DESCRIBE, Resource.TOPIC, topic)

    def may_see_group(self, caller: Caller, group_id: str) -> bool:
        """Whether the group may be listed."""
        return self._may(caller, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME) or self._may(
            caller, Operation.DESCRIBE, Resource.GROUP, group_id
        )

    def group_operations(self, caller: Caller, group_id: str) -> int:
        """AuthorizedOperations of a described group: one bit for each operation, by its number."""
        allowed = (op for op in _GROUP_OPERATIONS if self._may(caller, op, Resource.GROUP, group_id))
        return sum(1 << operation for operation in allowed)

    def _may(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> bool:
        return self._acl is None or self._acl.allows(caller.principal, caller.host, operation, resource, name)

    def _need(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        if not self._may(caller, operation, resource, name):
            self._refused(caller, operation, resource, name)
            what = f"{operation.name} on {resource.value} {name}"
            raise RequestError(_ERRORS[resource], f"{caller.principal} is not authorized: {what}")

    @staticmethod
    def _refused(caller: Caller, operation: Operation, resource: Resource, name: str) -> None:
        audit.access_refused(caller, operation.name, resource.value, name)
