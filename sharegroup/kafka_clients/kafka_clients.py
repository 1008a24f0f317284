"""Kafka clients configured by the job's `kafka` properties, which have Java's names."""

import functools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS
from sharegroup.log_fields import LogFields
from sharegroup.protocol.response_records import LIST_SUFFIX, decode_rows, to_record, to_records
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY, NewLeaderBroadcast, encode_broadcast
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.response_rows import to_error_row

logger = logging.getLogger(__name__)

#: Length to which names are truncated in log lines.
_SHOWN = 100
#: Timeout of a request, in ms. Brokers replace a leader that is paused or cut off after a few seconds. With Kafka's
#: default of 30 s, all groups would wait longer for the old leader.
_REQUEST_TIMEOUT_MS = 3_000
#: Timeout of a call of Spark's admin client in ms, number of Spark's retries, and pause between two retries in ms. A
#: call to a failed leader is sent to the new leader only after the timeout, which is 60 s by Kafka's default. The
#: timeout is longer than a leader election, because a task may have to wait for the election.
_CALL_TIMEOUT_MS, _CALL_ATTEMPTS, _CALL_PAUSE_MS = 8_000, 20, 100
#: The timestamp with which probes (rows that only measure the leaders' time) are sent. With LogAppendTime, the leader
#: replaces it by its own time. A stored probe with this timestamp shows that the topic keeps its producers' timestamps.
_PROBE_TIMESTAMP = 1
#: Maximum time, in seconds, for sending the remaining rows when the producer is closed.
_CLOSE_TIMEOUT_S = 1


class _Row(NamedTuple):
    """A row to produce. If `partition` is None, the key determines the partition."""

    key: str
    value: bytes
    partition: int | None = None


class KafkaUnavailableError(ShareGroupError):
    """The brokers did not carry out a request in time. `__cause__` is kafka-python's error."""


class NotTimedByBrokersError(ShareGroupError):
    """A request topic does not store the brokers' time as the timestamp of its rows."""


def spark_options(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka reader for the Kafka client properties `kafka`.

    Properties in `kafka` override the following defaults.

    `fetch.max.wait.ms` is 1, because Spark requests the log's end offsets after each poll. This request waits behind
    the consumer's next fetch, which is on the same connection. With Kafka's default of 500 ms, each task that has read
    everything would wait for half a second. Spark polls only for records that exist, so fetches never need to wait.

    A call for log offsets times out after 8 s, or after `request.timeout.ms` if this is longer. Spark then retries the
    call with a new client.
    """
    timeouts = dict.fromkeys(("request.timeout.ms", "socket.connection.setup.timeout.ms"), str(_REQUEST_TIMEOUT_MS))
    options = {"fetch.max.wait.ms": "1", **timeouts, **kafka, "bootstrap.servers": bootstrap_servers}
    options.setdefault("default.api.timeout.ms", str(max(_CALL_TIMEOUT_MS, int(options["request.timeout.ms"]))))
    tries = {"fetchOffset.numRetries": str(_CALL_ATTEMPTS), "fetchOffset.retryIntervalMs": str(_CALL_PAUSE_MS)}
    return {**{f"kafka.{name}": value for name, value in options.items()}, **tries}


class KafkaRowProducer:
    """Produces rows to the job's topics and waits until the brokers have stored them (acks=all, idempotent).

    The constructor raises KafkaUnavailableError if it cannot connect.
    """

    def __init__(
        self, settings: Mapping[str, Any], responses_topic: str, requests_topic: str, clock: JobClock | None = None
    ) -> None:
        """Create the producer.

        `clock` estimates the brokers' time. It uses the append times of small rows (probes) that this producer sends.
        """
        self._settings, self._clock = settings, clock or JobClock()
        self._producer = self._open()
        self._responses_topic = responses_topic
        self._requests_topic = requests_topic
        #: {topic: size in bytes}. Rows of this size or larger are too large for the topic.
        self._too_large: dict[str, int] = {}

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Produce rows in three steps: broadcasts, requests to the job's other query, and responses to single members.

        The rows of a step are durable before the next step begins, and all rows are durable when this method returns.
        So a broadcast, such as a member's departure, is stored before the request that releases the member's records.
        If a member re-joins, the request that releases its old records is stored before the response to the member.

        The key of a response is its `reply_to`. A response without `reply_to` is not sent. Raises KafkaUnavailableError
        if the brokers do not store the rows.

        A response that is too large for Kafka is replaced by an error response. Otherwise its micro-batch would fail
        again after each restart of the job. If this response belongs to a fetch, the locks of the acquired records
        remain until they expire. A request or broadcast that is too large is dropped and logged.
        """
        answers = [_Row(key, value) for key, value in to_records(responses)]
        self._broadcast([row for row in answers if row.key == BROADCAST_KEY])
        for key, value, _ in self._produce(
            self._requests_topic,
            self._to_partitions(self._requests_topic, [_Row(key, value.encode()) for key, value in requests]),
        ):
            logger.error(
                "dropped a request for %(key)s: its %(size_bytes)d bytes are too large for Kafka",
                LogFields(size_bytes=len(value), key=key[:_SHOWN]),
            )
        answers = [row for row in answers if row.key != BROADCAST_KEY]
        too_large = self._produce(self._responses_topic, answers)
        if any(row.key.endswith(LIST_SUFFIX) for row in too_large):
            too_large = self._produce(
                self._responses_topic, [each for row in too_large for each in _single_responses(row)]
            )
        errors = [_error_row(row) for row in too_large]
        for key, value, _ in self._produce(self._responses_topic, errors):
            logger.error(
                "dropped an error response to %(key)s: its %(size_bytes)d bytes are too large for Kafka",
                LogFields(size_bytes=len(value), key=key[:_SHOWN]),
            )

    def announce_leader(self) -> None:
        """Announce to all gateways and members that a job has started to serve share-partitions.

        Raises KafkaUnavailableError if the brokers do not store the rows.
        """
        self._broadcast([_Row(BROADCAST_KEY, encode_broadcast(NewLeaderBroadcast()))])

    def send_probe(self, topic: str) -> None:
        """Append a probe (`protocol.rows.probe`) to each partition of a request topic, to learn the leaders' times.

        Raises NotTimedByBrokersError if the topic does not have LogAppendTime, and KafkaUnavailableError if an append
        fails.
        """
        try:
            for probe in self._send_probes(topic):
                if probe.get().timestamp == _PROBE_TIMESTAMP:
                    raise NotTimedByBrokersError(
                        f"topic {topic} keeps the timestamps of its producers, whose clocks would decide when locks "
                        "end: set message.timestamp.type=LogAppendTime"
                    )
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error

    def refresh_clock(self, topic: str) -> None:
        """Send a probe to each partition of a request topic, without waiting for the appends.

        A leader that does not respond therefore causes no delay. Errors are only logged.
        """
        try:
            self._send_probes(topic)
        except (KafkaError, KafkaUnavailableError) as error:
            logger.debug("could not send a probe to topic %(topic)s: %(error)s", LogFields(topic=topic, error=error))

    def _send_probes(self, topic: str) -> list[Any]:
        probes = []
        self._clock.record_probe()
        for partition in sorted(self._partitions(topic)):
            sent_ms = self._clock.local_ms()
            probe = self._producer.send(
                topic, key=b"", value=PROBE.encode(), partition=partition, timestamp_ms=_PROBE_TIMESTAMP
            )
            probes.append(probe.add_callback(functools.partial(self._learn_time, sent_ms)))
        return probes

    def _learn_time(self, sent_ms: int, appended: Any) -> None:
        """Pass a probe's append time to the clock if the topic has LogAppendTime.

        `appended` is kafka-python's metadata of the stored row.
        """
        if appended.timestamp != _PROBE_TIMESTAMP:
            self._clock.record_append((appended.topic, appended.partition), sent_ms, appended.timestamp)

    def _broadcast(self, rows: Sequence[_Row]) -> None:
        """Produce rows to every partition of the response topic, because a reader may read only one partition."""
        topic = self._responses_topic
        for _, value, partition in self._produce(topic, self._to_partitions(topic, rows)):
            logger.error(
                "dropped a broadcast row: its size of %(size_bytes)d bytes is too large for partition %(partition)d",
                LogFields(size_bytes=len(value), partition=partition),
            )

    def _to_partitions(self, topic: str, rows: Sequence[_Row]) -> Sequence[_Row]:
        """Return the rows, with each row whose key is `BROADCAST_KEY` repeated for every partition of the topic."""
        if all(row.key != BROADCAST_KEY for row in rows):
            return rows
        partitions = sorted(self._partitions(topic))
        return [
            row._replace(partition=partition)
            for row in rows
            for partition in (partitions if row.key == BROADCAST_KEY else (None,))
        ]

    def _partitions(self, topic: str) -> Collection[int]:
        try:
            found: Collection[int] = self._producer.partitions_for(topic)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error
        return found

    def close(self) -> None:
        """Close the connections.

        Rows that `send` failed to produce are dropped. The next run of their micro-batch, by this job or by the next
        leader, sends them again.
        """
        try:
            self._producer.close(timeout=_CLOSE_TIMEOUT_S)
        except KafkaError:  # kafka-python stops at unsent rows, and leaves its thread and connections open
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
        """Produce rows, and return those that are too large for the client or the broker.

        When the broker rejects a row, kafka-python's producer stops, and all unsent rows fail with the same error. The
        largest of the failed rows is considered too large. A new producer sends the other failed rows again. From then
        on, rows of at least the largest row's size are not sent to this topic, but returned as too large.
        """
        too_large: list[_Row] = []
        while rows:
            limit = self._too_large.get(topic)
            too_large += [row for row in rows if limit is not None and len(row.value) >= limit]
            rejected, rows = self._try([row for row in rows if limit is None or len(row.value) < limit], topic), []
            if rejected:
                self._too_large[topic] = max(len(row.value) for row in rejected)
                self.close()
                self._producer = self._open()
                rows = rejected
        return too_large

    def _try(self, rows: Sequence[_Row], topic: str) -> list[_Row]:
        """Produce rows, and return those that failed because one of them is too large."""
        rejected: list[_Row] = []
        futures = []
        try:
            for row in rows:
                key, value, partition = row
                try:
                    future = self._producer.send(topic, key=key.encode(), value=value, partition=partition)
                    futures.append((row, future))
                except MessageSizeTooLargeError:
                    rejected.append(row)
            for row, future in futures:
                try:
                    future.get()  # until the producer stops: `flush` fails if a batch is split meanwhile
                except MessageSizeTooLargeError:
                    rejected.append(row)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error
        return rejected


def _single_responses(row: _Row) -> list[_Row]:
    return [_Row(*to_record(response)) for response in decode_rows(row.value)]


def _error_row(row: _Row) -> _Row:
    """Return an error response that replaces the response in `row`, which is too large. Log the replacement."""
    (response,) = decode_rows(row.value)
    message = f"The request was handled, but its response of {len(row.value)} bytes is too large for Kafka."
    logger.error(
        "replaced the response to request %(request)s of %(key)s by an error: %(error)s",
        LogFields(request=response["id"][:_SHOWN], key=response["reply_to"][:_SHOWN], error=message),
    )
    return _Row(*to_record(to_error_row(response, ErrorCode.UNKNOWN_SERVER_ERROR, message)))


def offsets_consumer(settings: Mapping[str, Any], read_committed: bool = False, **more: Any) -> KafkaConsumer:
    """Return a consumer without a group, for reading start and end offsets of logs.

    With `read_committed`, the end offset is the last stable offset. `more` are further settings of kafka-python.
    """
    isolation = "read_committed" if read_committed else "read_uncommitted"
    settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **settings}
    return KafkaConsumer(**settings, group_id=None, enable_auto_commit=False, isolation_level=isolation, **more)
