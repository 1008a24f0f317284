"""The thread that reads the gateway's response rows.

It polls the partition of the gateway's key, and after the topic has grown also the previous partition of the key.
"""

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
from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY, Broadcast, decode_broadcast
from sharegroup.protocol.rows.gateway_rows import GATEWAY_KEY, GatewayRow, decode_gateway
from sharegroup.protocol.rows.response_rows import Response, decode_responses

logger = logging.getLogger(__name__)

_POLL_MS = 500
_EVERYBODY, _GATEWAYS = BROADCAST_KEY.encode(), GATEWAY_KEY.encode()


class ResponseRecord(Protocol):
    """The fields used of a consumer's record."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes: ...
    @property
    def timestamp(self) -> int: ...


class GatewayAnnouncement(NamedTuple):
    """The announcement of a gateway, and when it was appended (milliseconds since the epoch)."""

    row: GatewayRow
    append_ms: int


#: The rows of the response topic that a gateway uses.
Row = Response | Broadcast | GatewayAnnouncement


class ResponseReader:
    """Reads from the end offset at the first poll, and continues from its position after errors.

    `listening` is called when all rows appended from now on will be read, `receive` with the records read. Both are
    called in the reader's thread. `settings` are kafka-python's.
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
        self._outage = OutageLog(logger, "failed to read responses", "responses are read again")
        self._thread = threading.Thread(target=self._read, name="job-responses", daemon=True)

    def start(self) -> None:
        """Start reading as soon as the job has created its topics."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; `join` waits for the end."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the connections are closed."""
        self._thread.join(timeout_s)

    def _read(self) -> None:
        """Read until stopped, whatever goes wrong, because a gateway without responses is useless."""
        consumer = None
        while not self._stopping.is_set():
            try:
                if consumer is None:
                    consumer = self._open()
                self._partitions.follow_partition_count(consumer)
                polled = consumer.poll(timeout_ms=_POLL_MS)
                self._outage.report_success()
                for partition, messages in polled.items():
                    self._partitions.record_positions(partition, messages)
                    self._receive(messages)
            except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
                if self._stopping.is_set():
                    break
                self._outage.report_failure(error)
                if consumer is not None and not isinstance(error, KafkaError):
                    consumer.close()
                    consumer = None
                self._stopping.wait(1)
        if consumer is not None:
            consumer.close()

    def _open(self) -> KafkaConsumer:
        """Read the partition of our responses, from its end or our last position. Raises KafkaError."""
        consumer = responses_consumer(self._settings)
        try:
            if not self._partitions.start_reading(consumer):
                logger.info("waiting for the job to create its topics")
                self._pause(0.5)
                while not self._partitions.start_reading(consumer):
                    self._pause(0.5)
        except BaseException:
            consumer.close()
            raise
        self._listening()
        return consumer

    def _pause(self, seconds: float) -> None:
        """Wait; raises JobUnavailableError when the reader is stopped."""
        if self._stopping.wait(seconds):
            raise JobUnavailableError("the gateway stops")


def decoded_rows(records: Iterable[ResponseRecord], key: bytes) -> list[Row]:
    """Return the rows for this key, the broadcasts and the announcements, in log order; undecodable ones are logged."""
    rows: list[Row] = []
    for record in records:
        try:
            rows += _decoded(record, key)
        except ValueError as error:
            logger.warning(
                "skipped an invalid response row at offset %(offset)d: %(error)s",
                LogFields(offset=record.offset, error=error),
            )
    return rows


def _decoded(record: ResponseRecord, key: bytes) -> Sequence[Row]:
    """Decode a record; responses for other gateways in the same partition are skipped. Raises ValueError."""
    if record.key == key:
        return decode_responses(record.value)
    if record.key == _GATEWAYS:
        return [GatewayAnnouncement(decode_gateway(record.value), record.timestamp)]
    if record.key != _EVERYBODY:
        return ()
    return [decode_broadcast(record.value)]
