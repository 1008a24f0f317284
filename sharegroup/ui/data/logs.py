"""Requests of the page to the brokers: offsets of logs, timestamps of records, and the payload of a record."""

import threading
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.config import Config
from sharegroup.errors import ShareGroupError
from sharegroup.kafka_clients.admin import LogOffsets, ShareGroupAdmin, ShareGroupOffset
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.log_records import read_records
from sharegroup.kafka_clients.topic_lookup import TopicLookup

Place = tuple[str, int]

#: Maximum time to wait for brokers, in ms.
_TIMEOUT_MS = 5_000


class LogsUnavailableError(ShareGroupError):
    """The brokers do not respond, or reject a request."""


class Payload(NamedTuple):
    """The content of a record in the log."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Logs(Protocol):
    """Access to the logs of partitions. A `Place` is a partition as (topic, number).

    All methods except `close` raise LogsUnavailableError if the brokers do not respond or reject a request.
    """

    def offsets(self, places: Collection[Place]) -> Mapping[Place, LogOffsets]:
        """Return {partition: start and end offset of its log}.

        Partitions that do not exist or have no leader are left out.
        """

    def timestamps_ms(self, starts: Mapping[Place, int]) -> Mapping[Place, int]:
        """Return {partition: timestamp in ms of its first record at or above an offset}.

        `starts` is {partition: this offset}. Partitions without such a record are left out.
        """

    def record(self, place: Place, offset: int) -> Payload | None:
        """Return the record at an offset, None if the log does not contain this record."""

    def close(self) -> None:
        """Close the connections."""


class BrokerLogs:
    """Access to the logs at the job's brokers. The first request opens the connections."""

    def __init__(self, config: Config) -> None:
        self._settings = python_properties(config.job.bootstrap_servers, config.job.kafka) | {
            "client_id": "sharegroup-ui"
        }
        self._topics = TopicLookup(self._settings)
        self._admin: ShareGroupAdmin | None = None
        self._lock = threading.Lock()

    def offsets(self, places: Collection[Place]) -> Mapping[Place, LogOffsets]:
        with self._lock:
            try:
                existing = self._topics.list_names()
                admin = self._connected()
                leaders = admin.leaders({topic for topic, _ in places if topic in existing})
                available = [key for key, leader in leaders.items() if leader >= 0 and tuple(key) in places]
                return {tuple(key): found for key, found in admin.log_offsets(available).items()}
            except KafkaError as error:
                raise self._unavailable(error) from error

    def timestamps_ms(self, starts: Mapping[Place, int]) -> Mapping[Place, int]:
        offsets = {TopicPartition(*place): ShareGroupOffset(offset, None, None) for place, offset in starts.items()}
        with self._lock:
            try:
                found = self._connected().oldest_unfinished(offsets)
            except KafkaError as error:
                raise self._unavailable(error) from error
        return {tuple(key): record.timestamp_ms for key, record in found.items()}

    def record(self, place: Place, offset: int) -> Payload | None:
        with self._lock:
            try:
                if place[0] not in self._topics.list_names():
                    return None
                found: list[Any] = read_records(self._settings, TopicPartition(*place), offset, 1, _TIMEOUT_MS)
            except KafkaError as error:
                raise self._unavailable(error) from error
        if not found or found[0].offset != offset:
            return None
        record = found[0]
        return Payload(record.timestamp, record.key, record.value, tuple(record.headers))

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _connected(self) -> ShareGroupAdmin:
        if self._admin is None:
            settings = dict(self._settings)
            self._admin = ShareGroupAdmin(settings.pop("bootstrap_servers"), timeout_ms=_TIMEOUT_MS, **settings)
        return self._admin

    def _disconnect(self) -> None:
        self._topics.close()
        self._topics = TopicLookup(self._settings)
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _unavailable(self, error: KafkaError) -> LogsUnavailableError:
        self._disconnect()
        return LogsUnavailableError(f"the brokers are not available: {error}")
