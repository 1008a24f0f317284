"""The filters of kafka-python's log lines, with connections that are reset on a real port."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.errors import Cancelled, KafkaConnectionError, KafkaError
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from sharegroup.kafka_clients import kafka_client_log
from sharegroup.kafka_clients.kafka_client_log import (
    OUTAGE_LOGGERS,
    OneLineNetworkErrors,
    OneLinePerOutage,
    set_up_kafka_client_log,
)

RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)
TRANSPORT, SELECTOR, SENDER = "kafka.net.transport", "kafka.net.selector", "kafka.producer.sender"

LOGGERS = (*OUTAGE_LOGGERS, SELECTOR)


@pytest.fixture(autouse=True)
def _client_log() -> Iterator[None]:
    kafka = logging.getLogger("kafka")
    level, filters = kafka.level, {name: list(logging.getLogger(name).filters) for name in LOGGERS}
    kafka_client_log._OUTAGES._began_s = None  # the state of another test
    set_up_kafka_client_log(logging.ERROR)
    set_up_kafka_client_log(logging.ERROR)
    yield
    kafka.setLevel(level)
    for name, before in filters.items():
        logging.getLogger(name).filters = before


@pytest.fixture
def resetting_server() -> Iterator[str]:
    """A server that reads one request of each connection and then resets it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(600)
        assert not thread.is_alive()


def test_reset_connection_is_one_line_without_a_stack_trace(
    resetting_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    resets: list[logging.LogRecord] = []
    while not resets:  # on a busy machine, the time may be over before the connection is reset
        kafka_client_log._OUTAGES._began_s = None
        with pytest.raises(KafkaError):
            KafkaAdminClient(bootstrap_servers=resetting_server, bootstrap_timeout_ms=2_000)
        resets = [record for record in caplog.records if "Error receiving network data" in record.getMessage()]
    assert all(record.exc_info is None and record.exc_text is None for record in resets)
    assert all(record.getMessage().endswith("Connection reset by peer") for record in resets)
    assert all(record.levelno >= logging.ERROR for record in caplog.records if record.name.startswith("kafka"))


def test_other_errors_keep_their_stack_traces(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("ours")
    except ValueError:
        logging.getLogger(TRANSPORT).exception("%s: wrong", "transport")
    assert caplog.records[-1].exc_info is not None
    assert caplog.messages[-1] == "transport: wrong"


@pytest.mark.parametrize("error", [Cancelled(), KafkaConnectionError("socket disconnected")], ids=["closed", "lost"])
def test_refresh_that_a_close_cancels_is_not_logged(error: KafkaError, caplog: pytest.LogCaptureFixture) -> None:
    """The client is closed while it waits for metadata, which may take as long as the previous fetch."""

    class Manager:
        def least_loaded_node(self) -> int:
            return 0

        def reset_backoff(self, node: str) -> None:
            pass

        async def send(self, request: object, node_id: int) -> None:
            raise error

    cluster = ClusterMetadata(bootstrap_servers="127.0.0.1:1")
    cluster._manager = Manager()
    with pytest.raises(type(error)):
        asyncio.run(cluster.refresh_metadata())
    assert ["Metadata refresh: failed" in text for text in caplog.messages] == [True] * (error.args != ())


def test_filters_are_set_up_once() -> None:
    filters = logging.getLogger(TRANSPORT).filters
    assert [type(present) for present in filters] == [OneLineNetworkErrors, OneLinePerOutage]
    assert filters[1] is logging.getLogger(SENDER).filters[0], "an outage is one for all connections"


class Outages:
    """Log lines of kafka-python in an outage, with a settable clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._filter = OneLinePerOutage(10.0, lambda: self.now_s, self._later)

    def _later(self, pause_s: float, look: Callable[[], None]) -> None:
        self._due.append((self.now_s + pause_s, look))

    def line(self, text: str = "connection lost", level: int = logging.WARNING, error: Exception | None = None) -> bool:
        """Log a line and return whether it is written."""
        return self._filter.filter(
            logging.LogRecord(SENDER, level, "", 0, text, (), error and (type(error), error, None))
        )

    def wait(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._due and min(self._due)[0] <= end_s:
            self.now_s, look = self._due.pop(0)
            look()
        self.now_s = end_s


def test_outage_is_one_line_at_its_start_and_one_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages()
    written = []
    for _ in range(5):
        written.append(outages.line())
        outages.wait(7)
    outages.wait(2.9)
    assert caplog.messages == []
    outages.wait(0.1)
    assert written == [True, False, False, False, False]
    assert caplog.messages == [
        "the outage of the Kafka clients is over after 28.0 s: no error was logged in the last 10 s; 4 lines were"
        " suppressed during the outage"
    ]
    assert outages.line(), "the next one"


def test_single_line_is_not_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages()
    assert outages.line()
    outages.wait(10)
    assert outages.line()
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("kafka.cluster", "No node available for metadata refresh - backoff/retry", ()),
        ("kafka.cluster", "Metadata refresh: failed %s", (KafkaConnectionError("ECONNREFUSED"),)),
        ("kafka.consumer.fetcher", "Fetch to node %s failed: %s", (1, KafkaConnectionError("ECONNREFUSED"))),
    ],
    ids=["no-node", "metadata", "fetch"],
)
def test_failed_requests_are_part_of_the_outage(
    caplog: pytest.LogCaptureFixture, name: str, text: str, values: tuple[object, ...]
) -> None:
    logging.getLogger("kafka.net.manager").error("Connection failed: %s", KafkaConnectionError("ECONNREFUSED"))
    logging.getLogger(name).error(text, *values)
    assert caplog.messages == ["Connection failed: KafkaConnectionError: ECONNREFUSED"]


def test_unknown_topic_is_logged_during_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kafka.net.manager").error("Connection failed")
    logging.getLogger("kafka.cluster").error("Topic %s not found in cluster metadata", "orders")
    assert caplog.messages == ["Connection failed", "Topic orders not found in cluster metadata"]


def test_other_lines_are_written_during_an_outage() -> None:
    outages = Outages()
    assert outages.line()
    assert outages.line("SaslHandshake failed: UnsupportedSaslMechanismError", logging.ERROR)
    assert outages.line("Uncaught error in kafka producer I/O thread", logging.ERROR, ValueError("ours"))
    assert outages.line("waiting", logging.INFO)
    assert not outages.line()


@pytest.mark.parametrize(("problem", "has_trace"), [("Invalid file descriptor: -1", False), ("a fault", True)])
def test_socket_that_was_closed_meanwhile_is_one_line(
    caplog: pytest.LogCaptureFixture, problem: str, has_trace: bool
) -> None:
    try:
        raise ValueError(problem)
    except ValueError:
        logging.getLogger(SELECTOR).exception("Unhandled exception in task %s:", "read")
    (record,) = caplog.records
    assert problem in caplog.text
    assert (record.exc_info is not None) is has_trace


@pytest.mark.parametrize("is_closed", [True, False])
def test_connection_that_this_process_closed_is_not_logged(caplog: pytest.LogCaptureFixture, is_closed: bool) -> None:
    here, there = socket.socketpair()
    with here, there, closing(NetworkSelector()) as net:
        transport = KafkaTCPTransport(net, here)
        if is_closed:
            transport.close()
        else:
            transport._sock = None
        transport._sock_recv()
    told = [record for record in caplog.records if record.name == TRANSPORT and record.levelno >= logging.ERROR]
    assert [record.exc_info is not None for record in told] == ([] if is_closed else [True])
