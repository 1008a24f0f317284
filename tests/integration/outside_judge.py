"""The simulation's judge about real members: what they were given and answered, and what they were promised by that."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import AcknowledgeType as ClientsType
from kafka import KafkaConsumer, TopicPartition

from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.judges.judge import Judge, Key
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

if TYPE_CHECKING:
    from tests.integration.share_members import Group, Member, Record
    from tests.simulation.judges.judge import Violation

_KINDS = {
    ClientsType.ACCEPT: AcknowledgeType.ACCEPT,
    ClientsType.RELEASE: AcknowledgeType.RELEASE,
    ClientsType.REJECT: AcknowledgeType.REJECT,
}


class _Clock:
    """This machine's, in place of the virtual one."""

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    @property
    def now_us(self) -> int:
        return time.time_ns() // 1_000


class OutsideJudge:
    """Judges the members of one group, which reads one topic by explicit acknowledgements and is not administered.

    `lock_ms` is the group's lock duration, `session_ms` its session timeout; what a client does not tell is taken to be
    a second earlier than it was seen.
    """

    def __init__(self, group: Group, bootstrap_servers: str, lock_ms: int, session_ms: int) -> None:
        self._group, self._lock_ms, self._session_ms = group, lock_ms, session_ms
        self._clock = _Clock()
        clock = cast(Scheduler, self._clock)
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers)
        self._log = SimpleNamespace(name=group.topic, deleted_ms=None, partitions=[])
        kafka = SimpleNamespace(
            topic_by_id=lambda _: self._log,
            deleted={},
            has_topic_ids=True,
            after=lambda _: [],
            topics={},
            most_behind_ms=0,
        )
        self._judge = Judge(clock, Trace(clock, keep=False), cast(SimulatedKafka, kafka))
        self._responses = itertools.count(1)
        #: What became of each record that a member acknowledged: (its place among the answers, kind, delivery count).
        self._waiting: dict[tuple[str, tuple[int, int]], list[tuple[AcknowledgeType, int]]] = {}
        self._heard: dict[tuple[str, tuple[int, int]], int] = {}

    @property
    def violations(self) -> list[Violation]:
        """What broke a promise."""
        return self._judge.violations

    @property
    def acknowledged(self) -> int:
        """Acceptances and rejections that were answered OK, and judged."""
        return self._judge.acknowledged

    def joined(self, name: str) -> None:
        """A member is there, and beats its heart by itself."""
        self._judge.heartbeat_appended(self._group.id, name, self._clock.now_ms, self._session_ms)

    def given(self, name: str, records: list[Record]) -> None:
        """What a poll has given to a member."""
        partitions = self._consumer.partitions_for_topic(self._group.topic) or set()
        ends = self._consumer.end_offsets([TopicPartition(self._group.topic, number) for number in sorted(partitions)])
        self._log.partitions = [SimpleNamespace(log_end_offset=end, lost_end=0) for _, end in sorted(ends.items())]
        deadline_ms = self._clock.now_ms - 1_000 + self._lock_ms
        for record in records:
            ranges = [AcquiredRange(record.offset, record.offset, record.delivery_count)]
            response = f"{name}-{next(self._responses)}"
            self._judge.delivered(name, self._key(record.partition), ranges, deadline_ms, response)

    def acknowledges(self, name: str, record: Record, kind: ClientsType = ClientsType.ACCEPT) -> None:
        """A member is about to say what became of a record."""
        known = _KINDS[kind]
        batch = AcknowledgementBatch(record.offset, record.offset, (int(known),))
        self._judge.acknowledges(name, self._key(record.partition), [batch])
        self._waiting.setdefault((name, record.key), []).append((known, record.delivery_count))

    def hear(self, name: str, member: Member) -> None:
        """Take in what the member was answered since the last time."""
        for key, codes in member.answers.items():
            heard = self._heard.get((name, key), 0)
            for place in range(heard, len(codes)):
                kind, count = self._waiting[name, key][place]
                if codes[place] is None:
                    batch = AcknowledgementBatch(key[1], key[1], (int(kind),))
                    self._judge.acknowledged_ok(name, self._key(key[0]), [batch], {key[1]: count})
                else:
                    text = f"{key} of {name}, within its lock, was answered {codes[place]}"
                    self._judge.violate("an acknowledgement in time counts", text, self._key(key[0]))
            self._heard[name, key] = len(codes)

    def _key(self, partition: int) -> Key:
        return Key(self._group.id, self._group.topic, "the only one", partition)

    def __enter__(self) -> OutsideJudge:
        return self

    def __exit__(self, *_: Any) -> None:
        self._consumer.close()
