"""Creates kafka-python's admin client, and reports why it cannot connect.

kafka-python retries every failure until its timeout and does not report the reason.
"""

import socket
import time
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NodeNotReadyError
from kafka.net.compat import KafkaNetClient

from sharegroup.kafka_clients.admin.errors import error_text

#: Timeout of the first attempt to connect, in ms. It is short so that a permanent error, such as a rejected login, is
#: reported early: the reason of a failure is only determined at the end of an attempt. The timeout doubles for each
#: further attempt, in case the server is only slow.
FIRST_ATTEMPT_MS = 2_000


def connect(settings: Mapping[str, Any], timeout_ms: int) -> KafkaAdminClient:
    """Return a connected admin client of kafka-python with these settings.

    A permanent error, such as SaslAuthenticationFailedError, is raised after the attempt in which it occurs; the first
    attempt takes up to FIRST_ATTEMPT_MS. If no server can be reached within the timeout, KafkaTimeoutError is raised
    with the reason for the last failure.
    """
    end, attempt_ms = time.monotonic() + timeout_ms / 1000, float(FIRST_ATTEMPT_MS)
    while True:
        left_ms = (end - time.monotonic()) * 1000
        try:
            return _attempt(settings, max(1.0, min(left_ms, attempt_ms)))
        except (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError) as error:
            if left_ms <= attempt_ms:
                servers = settings["bootstrap_servers"]
                named = servers if isinstance(servers, str) else ",".join(servers)
                raise KafkaTimeoutError(f"Unable to bootstrap from {named}: {error_text(error)}") from error
        attempt_ms *= 2


def _attempt(settings: Mapping[str, Any], timeout_ms: float) -> KafkaAdminClient:
    clients: list[KafkaNetClient] = []

    def client(**config: Any) -> KafkaNetClient:
        clients.append(KafkaNetClient(**config))
        return clients[-1]

    try:
        return KafkaAdminClient(**{**settings, "bootstrap_timeout_ms": timeout_ms, "kafka_client": client})
    except KafkaError as error:
        reason = _reason(clients[0], timeout_ms) if clients else None
        raise reason or error from None


def _reason(client: KafkaNetClient, timeout_ms: float) -> KafkaError | None:
    """Return the error with which `client` fails to connect to the first server, and close the client.

    kafka-python does not report this error, so this function connects once more. It returns None if this attempt
    succeeds.
    """
    manager = client._manager

    async def one_more() -> None:
        node_id = manager.cluster.bootstrap_brokers()[0].node_id
        manager.reset_backoff(node_id)
        await manager.wait_for(manager.get_connection(node_id).init_future, timeout_ms)

    try:
        manager.run(one_more)
    except KafkaError as error:
        return error
    finally:
        _end(client)
    return None


def _end(client: KafkaNetClient) -> None:
    """Close the client and its sockets. kafka-python's `close` skips a connection in its TLS handshake."""
    net = client._manager._net
    registered = [key.fileobj for key in list((net._selector.get_map() or {}).values())]
    client.close()
    net.stop()
    for file in registered:
        if isinstance(file, socket.socket):
            file.close()
