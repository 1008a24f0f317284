"""confluent-kafka's ShareConsumer, a KIP-932 client that no one here wrote, and what it was told.

A member polls until something is true, never for some time: `poll_until`. What members were told is compared with the
tables: they are the truth about every record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer
from kafka import KafkaConsumer, TopicPartition

from sharegroup.storage import read_group
from sharegroup.testing.delivery_audit import Progress, audit, progress
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import PATIENCE_S, wait_until

POLL_S = 0.2
#: librdkafka's fatal errors alone: a preview warning comes with each consumer, and gateways are killed here.
LOG_LEVEL = 1

Key = tuple[int, int]  # partition, offset


class Record(NamedTuple):
    """A record as it was delivered."""

    partition: int
    offset: int
    value: bytes
    delivery_count: int

    @property
    def key(self) -> Key:
        """Which record of the topic it is."""
        return self.partition, self.offset


class Member:
    """One ShareConsumer. `deliveries`: the delivery counts of each record, as they came.

    It joins its group at once, or with `join`, where everything else is to be done by then.
    `answers`: each record's acknowledgements, in order: None, or the code of the error that was answered.
    """

    def __init__(
        self, bootstrap_servers: str, group_id: str, topic: str, *, joins_later: bool = False, **settings: Any
    ) -> None:
        config = {"bootstrap.servers": bootstrap_servers, "group.id": group_id, "log_level": LOG_LEVEL}
        self.consumer = ShareConsumer({**config, **{_property(key): value for key, value in settings.items()}})
        self.topic = topic
        self.deliveries: dict[Key, list[int]] = {}
        self.values: dict[Key, bytes] = {}
        self.answers: dict[Key, list[int | None]] = {}
        self.consumer.set_acknowledgement_commit_callback(self._answered)
        if not joins_later:
            self.join()

    def join(self) -> None:
        """Join the group, by a subscription to the topic."""
        self.consumer.subscribe([self.topic])

    def poll(self) -> list[Record]:
        """One poll. Raises KafkaException for an error that is not about a record."""
        records = [_record(message) for message in self.consumer.poll(timeout=POLL_S)]
        for record in records:
            self.deliveries.setdefault(record.key, []).append(record.delivery_count)
            self.values[record.key] = record.value
        return records

    def poll_until(self, condition: Callable[[], bool], handle: Callable[[Record], None] | None = None) -> None:
        """Poll until `condition` holds, and give each record to `handle`; AssertionError when that takes too long."""
        poll_in_turns([self], condition, handle)

    def acknowledge(self, record: Record, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """In explicit mode: say what became of a record; the next poll tells the broker."""
        self.consumer.acknowledge_offset(self.topic, record.partition, record.offset, kind)

    @property
    def accepted(self) -> set[Key]:
        """The records whose acknowledgement was answered without an error."""
        return {key for key, codes in self.answers.items() if codes[-1] is None}

    def seen(self) -> str:
        """How many records came, and what was answered about those that are not accepted."""
        others = {key: self.answers.get(key) for key in sorted(self.deliveries.keys() - self.accepted)}
        return f"{len(self.deliveries)} records, not accepted: {others}"

    def _answered(self, offsets: dict[Any, Iterable[int]], error: KafkaException | None) -> None:
        code = None if error is None else error.args[0].code()
        for partition, acknowledged in offsets.items():
            for offset in acknowledged:
                self.answers.setdefault((partition.partition, offset), []).append(code)

    def close(self) -> None:
        """Acknowledge what is to be acknowledged, and leave the group."""
        self.consumer.close()

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Group:
    """A group that reads one topic; `bootstrap_servers` is where its members connect."""

    def __init__(self, job: ShareGroupJobRun, bootstrap_servers: str, topic: str, kind: str = "earliest") -> None:
        self.id, self.topic = job.new_group(kind), topic
        self._job, self._bootstrap_servers = job, bootstrap_servers

    def member(self, **settings: Any) -> Member:
        """A new member; `settings` are the client's, with underscores."""
        return Member(self._bootstrap_servers, self.id, self.topic, **settings)

    def member_count(self) -> int:
        """How many members the tables say the group has."""
        found = read_group(str(self._job.tables_path), self.id)
        return 0 if found is None else len(found.members)

    def await_finished(self, *members: Member) -> Progress:
        """Wait until every record of the topic is finished, once, while `members` poll; what the tables say then."""
        tables = str(self._job.tables_path)
        consumer = KafkaConsumer(bootstrap_servers=self._job.bootstrap_servers)
        partitions = [TopicPartition(self.topic, number) for number in consumer.partitions_for_topic(self.topic)]
        ends = {(key.topic, key.partition): end for key, end in consumer.end_offsets(partitions).items()}
        consumer.close()
        if members:
            poll_in_turns(list(members), lambda: not audit(tables, self.id, ends))
        else:
            wait_until(lambda: not audit(tables, self.id, ends), f"all of {self.id} is finished")
        return progress(tables, self.id)


def _property(key: str) -> str:
    """confluent-kafka's name: those of its callbacks have underscores themselves."""
    return key if key.endswith("_cb") else key.replace("_", ".")


def keys(partitions: int, records: int) -> set[Key]:
    """All records of a topic that has `records` in each of its partitions."""
    return {(partition, offset) for partition in range(partitions) for offset in range(records)}


def delivered(members: Iterable[Member]) -> int:
    """Records that came to any of the members."""
    return len({key for member in members for key in member.deliveries})


def once(*members: Member) -> bool:
    """Whether each record came once, for the first time, and to one of the members only."""
    counts = [counts for member in members for counts in member.deliveries.values()]
    return counts == [[1]] * len(counts) and delivered(members) == len(counts)


def poll_in_turns(
    members: list[Member], condition: Callable[[], bool], handle: Callable[[Record], None] | None = None
) -> None:
    """Let the members poll, one after the other, until `condition` holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"seen so far: {[member.seen() for member in members]}"
        for member in members:
            for record in member.poll():
                if handle is not None:
                    handle(record)


def _record(message: Message) -> Record:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return Record(message.partition(), message.offset(), message.value(), message.delivery_count())
