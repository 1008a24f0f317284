"""The thread that reads the gateway's response rows: it polls the partition that the gateway's key is in, and after
the topic has grown the one that it was in before as well."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from sharegroup.gateway.job_client.row_appender import JobUnavailableError
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.kafka_clients.response_partitions import ResponsePartitions, responses_consumer
from sharegroup.protocol.rows.broadcasts import EVERYBODY, Broadcast, decode_broadcast
from sharegroup.protocol.rows.gateway_rows import GATEWAYS, GatewayRow, decode_gateway
from sharegroup.protocol.rows.response_rows import Response, decode_responses

logger = logging.getLogger(__name__)

_POLL_MS = 500
_EVERYBODY, _GATEWAYS = EVERYBODY.encode(), GATEWAYS.encode()


class ResponseRecord(Protocol):
    """What is read of a consumer's record."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes: ...
    @property
    def timestamp(self) -> int: ...


class HeardGateway(NamedTuple):
    """A gateway's row, and when it was appended (milliseconds since the epoch)."""

    row: GatewayRow
    append_ms: int


#: What is of use in the topic.
Row = Response | Broadcast | HeardGateway


class ResponseReader:
    """Reads from the end that the topic has when it comes to it, and goes on from where it was.

    `listening` is called when whatever is appended from now on is read, `receive` with what was read. Both are called
    in the reader's own thread. `settings` are kafka-python's.
    """

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        key: bytes,
        listening: Callable[[], None],
        receive: Callable[[Iterable[ResponseRecord]], None],
    ) -> None:
        self._settings = settings
        self._partitions = ResponsePartitions(topic, key)
        self._listening, self._receive = listening, receive
        self._stopping = threading.Event()
        self._outage = OutageLog(logger, "responses cannot be read", "responses are read again")
        self._thread = threading.Thread(target=self._read, name="job-responses", daemon=True)

    def start(self) -> None:
        """Begin to read, as soon as the job has made its topics."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more; `join` waits for that."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the connections are closed."""
        self._thread.join(timeout_s)

    def _read(self) -> None:
        """Until we stop, whatever goes wrong: a gateway that hears no responses is of no use."""
        consumer = None
        while not self._stopping.is_set():
            try:
                if consumer is None:
                    consumer = self._open()
                self._partitions.follow(consumer)
                polled = consumer.poll(timeout_ms=_POLL_MS)
                self._outage.ended()
                for partition, messages in polled.items():
                    self._partitions.took(partition, messages)
                    self._receive(messages)
            except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
                if self._stopping.is_set():
                    break
                self._outage.began(error)
                if consumer is not None and not isinstance(error, KafkaError):
                    consumer.close()
                    consumer = None
                self._stopping.wait(1)
        if consumer is not None:
            consumer.close()

    def _open(self) -> KafkaConsumer:
        """Read the partition that our responses are in, from its end or where we were. Raises KafkaError."""
        consumer = responses_consumer(self._settings)
        try:
            if not self._partitions.open(consumer):
                logger.info("waiting for the job to create its topics")
                self._pause(0.5)
                while not self._partitions.open(consumer):
                    self._pause(0.5)
        except BaseException:
            consumer.close()
            raise
        self._listening()
        return consumer

    def _pause(self, seconds: float) -> None:
        """Raises JobUnavailableError when we are to stop."""
        if self._stopping.wait(seconds):
            raise JobUnavailableError("the gateway stops")


def decoded_rows(records: Iterable[ResponseRecord], key: bytes) -> list[Row]:
    """Those for this key, for everybody and of gateways, in the order of the log; what cannot be read is logged."""
    rows: list[Row] = []
    for record in records:
        try:
            rows += _decoded(record, key)
        except ValueError as error:
            logger.warning("response row at offset %d cannot be read: %s", record.offset, error)
    return rows


def _decoded(record: ResponseRecord, key: bytes) -> Sequence[Row]:
    """Nothing of other gateways' responses in the same partition, which are not even decoded. Raises ValueError."""
    if record.key == key:
        return decode_responses(record.value)
    if record.key == _GATEWAYS:
        return [HeardGateway(decode_gateway(record.value), record.timestamp)]
    if record.key != _EVERYBODY:
        return ()
    return [decode_broadcast(record.value)]
