"""Requests to brokers and group coordinators. This module and `connecting` use private parts of kafka-python."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kafka.errors import IncompatibleBrokerVersion, KafkaError, UnsupportedVersionError
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import FindCoordinatorRequest

from sharegroup.kafka_clients.admin.connecting import connect
from sharegroup.kafka_clients.admin.errors import TRANSIENT, error_of
from sharegroup.kafka_clients.admin.results import Coordinator

T = TypeVar("T")

_GROUP = 0
#: The first version of FindCoordinator that accepts several group ids in one request.
_KEYS_VERSION = 4

#: A function that sends one request about several groups to their coordinator. It returns {group id: result or error}.
#: If the function raises a transient error, this error becomes the result of each of these groups.
Exchange = Callable[[Coordinator, list[str]], Mapping[str, T | KafkaError]]


class Brokers:
    """The brokers of a cluster, or the ports of a gateway. The methods send requests to them, and raise KafkaError.

    A request that fails with a transient error (the coordinator moves or loads, the connection is lost) is retried for
    up to `timeout_ms`. If only the response was lost, the request is executed twice.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000
        self.admin = connect({"request_timeout_ms": timeout_ms, **settings}, timeout_ms)
        self._backoff_s = self.admin.config["retry_backoff_ms"] / 1000

    def close(self) -> None:
        self.admin.close()

    def node_ids(self) -> list[int]:
        """Return the ids of all brokers, sorted."""
        return sorted(broker.node_id for broker in self.admin._manager.cluster.brokers())

    def request(self, request: ApiMessage, node_id: int | None = None) -> Any:
        """Send a request to a broker (None: any broker) and return its response.

        Transient errors of the connection are retried. Error codes in the response are not.
        """
        return self.retry(lambda: self.request_once(request, node_id))

    def retry(self, attempt: Callable[[], T]) -> T:
        """Call `attempt` and return its result.

        After a transient error it is called again, for up to `timeout_ms` in total. The last error is then raised.
        """
        end = time.monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except TRANSIENT:
                if time.monotonic() + self._backoff_s >= end:
                    raise
            time.sleep(self._backoff_s)

    def request_coordinators(self, group_ids: Collection[str], exchange: Exchange[T]) -> dict[str, T | KafkaError]:
        """Find the coordinators of the groups, call `exchange` for each coordinator, and return all results.

        `exchange` is called with a coordinator and its groups, and sends one request (see `Exchange`). This method
        returns {group id: result or error} in the order of `group_ids`. If a group has a transient error, `exchange` is
        called again for this group until the timeout.
        """
        results: dict[str, T | KafkaError] = {}
        end = time.monotonic() + self._timeout_s
        waiting = list(dict.fromkeys(group_ids))
        while waiting:
            coordinators: dict[Coordinator, list[str]] = {}
            for group_id, found in self._coordinators(waiting).items():
                if isinstance(found, Coordinator):
                    coordinators.setdefault(found, []).append(group_id)
                else:
                    results[group_id] = found
            for coordinator, ids in coordinators.items():
                results |= _results_of(coordinator, ids, exchange)
            waiting = [group_id for group_id in waiting if isinstance(results[group_id], TRANSIENT)]
            if waiting and time.monotonic() + self._backoff_s >= end:
                break
            if waiting:
                time.sleep(self._backoff_s)
        return {group_id: results[group_id] for group_id in dict.fromkeys(group_ids)}

    def request_once(self, request: ApiMessage, node_id: int | None = None) -> Any:
        """Send a request without retrying it, and return the response.

        Raises UnsupportedVersionError if the broker does not support the API, and other kinds of KafkaError.
        """
        manager = self.admin._manager
        try:
            return manager.run(manager.send, request, node_id)
        except IncompatibleBrokerVersion as error:
            api = request.name.removesuffix("Request")
            raise UnsupportedVersionError(
                f"The broker does not support {api}: share groups need Kafka 4.2 or a gateway"
            ) from error

    def _coordinators(self, group_ids: list[str]) -> dict[str, Coordinator | KafkaError]:
        request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=group_ids, min_version=_KEYS_VERSION)
        return {
            row.key: error_of(row.error_code, row.error_message) or Coordinator(row.node_id, row.host, row.port)
            for row in self.request(request).coordinators
        }


def _results_of(coordinator: Coordinator, group_ids: list[str], exchange: Exchange[T]) -> Mapping[str, T | KafkaError]:
    try:
        return exchange(coordinator, group_ids)
    except TRANSIENT as error:
        return dict.fromkeys(group_ids, error)
