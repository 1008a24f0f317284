"""Kafka clients from the job's `kafka` properties, which have Java's names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS
from sharegroup.protocol.response_records import LISTS, as_record, records_of, rows_of
from sharegroup.protocol.rows.broadcasts import EVERYBODY, NewLeaderBroadcast, encode_broadcast
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.response_rows import without_content

logger = logging.getLogger(__name__)

#: How much of a name that may be long is logged.
_NAMED = 100
#: How long a broker may take to answer, in ms. By Kafka's default of 30 s all groups would wait for a leader that is
#: paused or cut off, although the brokers elect another one after a few seconds.
_REQUEST_TIMEOUT_MS = 3_000
#: How long a call of Spark's admin client may take, in ms, and how often Spark tries it again. A call that waits for a
#: leader which goes away is bound to that broker until this time is over: by Kafka's default up to 60 s, while another
#: broker leads. It is longer than brokers take to elect a leader, for which a task may wait.
_CALL_TIMEOUT_MS, _CALL_ATTEMPTS, _CALL_PAUSE_MS = 8_000, 20, 100
#: The timestamp of a probe as it is sent. Its leader puts its own time there; where a topic keeps the sender's
#: timestamps, this one says so.
_NOT_A_BROKERS_TIME = 1
#: For a producer's unsent rows, when it is closed.
_CLOSE_TIMEOUT_S = 1


class _Row(NamedTuple):
    """A row to be produced; `partition` is None where the key chooses it."""

    key: str
    value: bytes
    partition: int | None = None


class KafkaUnavailableError(ShareGroupError):
    """The brokers did not do what was asked in time; the cause is kept."""


class NotTimedByBrokersError(ShareGroupError):
    """A request topic does not have the brokers' time as the time of its rows."""


def spark_options(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka reader for the same properties.

    After each poll Spark asks for the log's ends on the same connection, where the broker lets it wait behind the fetch
    that the poll has sent ahead: half a second at Kafka's default of fetch.max.wait.ms, in each task that has read all
    there is. Spark only polls for records that are there, so a fetch never has to wait.

    A call for log offsets is given up after 8 s, or after `request.timeout.ms` where that is longer, and tried again by
    a new client.
    """
    timeouts = dict.fromkeys(("request.timeout.ms", "socket.connection.setup.timeout.ms"), str(_REQUEST_TIMEOUT_MS))
    options = {"fetch.max.wait.ms": "1", **timeouts, **kafka, "bootstrap.servers": bootstrap_servers}
    options.setdefault("default.api.timeout.ms", str(max(_CALL_TIMEOUT_MS, int(options["request.timeout.ms"]))))
    tries = {"fetchOffset.numRetries": str(_CALL_ATTEMPTS), "fetchOffset.retryIntervalMs": str(_CALL_PAUSE_MS)}
    return {**{f"kafka.{name}": value for name, value in options.items()}, **tries}


class KafkaRowProducer:
    """Produces rows to the job's topics and waits until the broker has them (acks=all, idempotent).

    Making one raises KafkaUnavailableError.
    """

    def __init__(
        self, settings: Mapping[str, Any], responses_topic: str, requests_topic: str, clock: JobClock | None = None
    ) -> None:
        """`clock` learns the brokers' time from probes."""
        self._settings, self._clock = settings, clock or JobClock()
        self._producer = self._open()
        self._responses_topic = responses_topic
        self._requests_topic = requests_topic
        #: From this size on a topic's rows have turned out to be too large.
        self._too_large: dict[str, int] = {}

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Produce rows for everybody, then requests to the other query, then responses keyed by `reply_to`.

        Each kind is durable before the next is sent, and all when it returns. What everybody is told, as that a member
        has left, is in the topic before the request that gives its records to others. A release that a re-joining
        member caused is in its topic before the member hears that it joined. Responses that nobody waits for (no
        `reply_to`) are left out. Raises KafkaUnavailableError.

        A row that is too large for Kafka would fail for ever, at each start: it is durable as a part of its batch. In
        place of such a response goes an error; what a fetch acquired comes back by its locks.
        """
        answers = [_Row(key, value) for key, value in records_of(responses)]
        self._broadcast([row for row in answers if row.key == EVERYBODY])
        for key, value, _ in self._produce(
            self._requests_topic, [_Row(key, value.encode()) for key, value in requests]
        ):
            logger.error("a request of %d bytes is too large for Kafka, left out: %s", len(value), key[:_NAMED])
        answers = [row for row in answers if row.key != EVERYBODY]
        too_large = self._produce(self._responses_topic, answers)
        if any(row.key.endswith(LISTS) for row in too_large):
            too_large = self._produce(self._responses_topic, [each for row in too_large for each in _apart(row)])
        errors = [_error_row(row) for row in too_large]
        for key, value, _ in self._produce(self._responses_topic, errors):
            logger.error("an error of %d bytes is too large for Kafka, left out: %s", len(value), key[:_NAMED])

    def announce_leader(self) -> None:
        """Tell all who read responses that a job begins to serve share-partitions. Raises KafkaUnavailableError."""
        self._broadcast([_Row(EVERYBODY, encode_broadcast(NewLeaderBroadcast()))])

    def send_probe(self, topic: str) -> None:
        """Append a probe (`protocol.rows.probe`) to each partition of a request topic: their leaders tell the time.

        Raises KafkaUnavailableError, NotTimedByBrokersError.
        """
        try:
            for probe in self._send_probes(topic):
                if probe.get().timestamp == _NOT_A_BROKERS_TIME:
                    raise NotTimedByBrokersError(
                        f"topic {topic} keeps the timestamps of its producers, by whose clocks locks would end: set "
                        "message.timestamp.type=LogAppendTime"
                    )
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error

    def refresh_clock(self, topic: str) -> None:
        """The same without waiting: a leader that does not answer delays nobody, and tells no time."""
        try:
            self._send_probes(topic)
        except (KafkaError, KafkaUnavailableError) as error:
            logger.debug("no probe can be appended to %s: %s", topic, error)

    def _send_probes(self, topic: str) -> list[Any]:
        probes = []
        self._clock.probes()
        for partition in sorted(self._partitions(topic)):
            sent_ms = self._clock.local_ms()
            probe = self._producer.send(
                topic, key=b"", value=PROBE.encode(), partition=partition, timestamp_ms=_NOT_A_BROKERS_TIME
            )
            probes.append(probe.add_callback(functools.partial(self._tell_time, sent_ms)))
        return probes

    def _tell_time(self, sent_ms: int, appended: Any) -> None:
        """Take the time of a probe's append, if the topic has LogAppendTime; `appended` is kafka-python's metadata."""
        if appended.timestamp != _NOT_A_BROKERS_TIME:
            self._clock.appended((appended.topic, appended.partition), sent_ms, appended.timestamp)

    def _broadcast(self, rows: Sequence[_Row]) -> None:
        """Produce rows to every partition of the response topic: whoever reads it may read only one of them."""
        if not rows:
            return
        partitions = sorted(self._partitions(self._responses_topic))
        everywhere = [row._replace(partition=partition) for row in rows for partition in partitions]
        for _, value, partition in self._produce(self._responses_topic, everywhere):
            logger.error("a row of %d bytes for everybody is too large for partition %d", len(value), partition)

    def _partitions(self, topic: str) -> Collection[int]:
        try:
            found: Collection[int] = self._producer.partitions_for(topic)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error
        return found

    def close(self) -> None:
        """Close the connections.

        Rows that `send` gave up are dropped here. The next run of the batch sends them again, or the next leader does.
        """
        try:
            self._producer.close(timeout=_CLOSE_TIMEOUT_S)
        except KafkaError:  # it gives up at unsent rows, and leaves its thread and its connections behind
            self._producer._sender.force_close()

    def _open(self) -> KafkaProducer:
        try:
            settings = {
                "request_timeout_ms": _REQUEST_TIMEOUT_MS, "metadata_max_age_ms": METADATA_AGE_MS, **self._settings
            }  # fmt: skip
            return KafkaProducer(**settings, acks="all", enable_idempotence=True, linger_ms=1, compression_type=None)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot connect to Kafka: {error}") from error

    def _produce(self, topic: str, rows: Sequence[_Row]) -> list[_Row]:
        """Produce rows, and return those that are too large, for the client or for the broker.

        The broker's refusal ends kafka-python's producer: all rows that were still to be sent fail with the one that
        was refused. The largest of them must be it.
        """
        too_large: list[_Row] = []
        while rows:
            limit = self._too_large.get(topic)
            too_large += [row for row in rows if limit is not None and len(row.value) >= limit]
            refused, rows = self._try([row for row in rows if limit is None or len(row.value) < limit], topic), []
            if refused:
                self._too_large[topic] = max(len(row.value) for row in refused)
                self.close()
                self._producer = self._open()
                rows = refused
        return too_large

    def _try(self, rows: Sequence[_Row], topic: str) -> list[_Row]:
        """Produce rows, and return those that failed as there was one too large."""
        refused: list[_Row] = []
        futures = []
        try:
            for row in rows:
                key, value, partition = row
                try:
                    future = self._producer.send(topic, key=key.encode(), value=value, partition=partition)
                    futures.append((row, future))
                except MessageSizeTooLargeError:
                    refused.append(row)
            for row, future in futures:
                try:
                    future.get()  # until the producer gives up: `flush` fails when a batch is split meanwhile
                except MessageSizeTooLargeError:
                    refused.append(row)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error
        return refused


def _apart(row: _Row) -> list[_Row]:
    """A record for each of the responses."""
    return [_Row(*as_record(response)) for response in rows_of(row.value)]


def _error_row(row: _Row) -> _Row:
    """What is sent in place of a response that is too large."""
    (response,) = rows_of(row.value)
    message = f"The request was handled, but its response of {len(row.value)} bytes is too large for Kafka."
    logger.error("response %s to %s: %s", response["id"][:_NAMED], response["reply_to"][:_NAMED], message)
    return _Row(*as_record(without_content(response, ErrorCode.UNKNOWN_SERVER_ERROR, message)))


def offsets_consumer(settings: Mapping[str, Any], read_committed: bool = False, **more: Any) -> KafkaConsumer:
    """A consumer without a group, for looking at offsets; `read_committed` makes the end the last stable offset."""
    isolation = "read_committed" if read_committed else "read_uncommitted"
    settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **settings}
    return KafkaConsumer(**settings, group_id=None, enable_auto_commit=False, isolation_level=isolation, **more)
