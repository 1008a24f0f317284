"""The thread that reads the gateway's response rows.

The thread reads the partition to which the gateway's key is mapped. If partitions are added to the topic, the key may
be mapped to another partition. The thread then reads both partitions.
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
    """The fields of kafka-python's consumer records that this module uses."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes: ...
    @property
    def timestamp(self) -> int: ...


class GatewayAnnouncement(NamedTuple):
    """The announcement row of a gateway, and the time of its append in ms since the epoch."""

    row: GatewayRow
    append_ms: int


#: The rows of the response topic that a gateway processes.
Row = Response | Broadcast | GatewayAnnouncement


class ResponseReader:
    """Reads response rows on a thread. It starts at the end of the log, and continues at its position after an error.

    `key` is the key of the gateway's response rows. `listening` is called when the position in the log is set. All rows
    that are appended after this call are read. `receive` is called with the records that were read. Both functions are
    called on the reader's thread. `settings` are kafka-python's.
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
        self._outage = OutageLog(logger, "failed to read responses", "responses can be read again")
        self._thread = threading.Thread(target=self._read, name="job-responses", daemon=True)

    def start(self) -> None:
        """Start the thread. If the job's topics do not exist yet, the thread waits for them."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading soon. Does not wait until the thread has ended; see `join`."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds until the thread has ended and closed its connections."""
        self._thread.join(timeout_s)

    def _read(self) -> None:
        """Read until `stop` is called. Retry after any error, because the gateway cannot work without responses."""
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
        """Return a consumer of the response topic, positioned at the end of the log or at the last known position.

        Waits until the topic exists. Raises KafkaError, and JobUnavailableError if the reader is stopped meanwhile.
        """
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
        """Wait for `seconds`. Raises JobUnavailableError if the reader is stopped meanwhile."""
        if self._stopping.wait(seconds):
            raise JobUnavailableError("the gateway is shutting down")


def decoded_rows(records: Iterable[ResponseRecord], key: bytes) -> list[Row]:
    """Return the responses to the gateway with this key, and all broadcasts and announcements, in log order.

    Rows that cannot be decoded are logged and skipped.
    """
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
    """Return the rows of a record; none if it is for another gateway. Raises ValueError for an invalid row."""
    if record.key == key:
        return decode_responses(record.value)
    if record.key == _GATEWAYS:
        return [GatewayAnnouncement(decode_gateway(record.value), record.timestamp)]
    if record.key != _EVERYBODY:
        return ()
    return [decode_broadcast(record.value)]
