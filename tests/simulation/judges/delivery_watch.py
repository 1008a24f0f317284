"""Records that must be delivered in time, even with a silent broker and a wrong wall clock of the job, in runs in which
nothing else delays them.

A topic has a partition at each broker, and two groups read it: one with rows, the other through a gateway. While a
broker is silent, the partitions of the others are delivered, delayed by at most one request timeout. Only the job's own
topics excuse more delay: their partitions at a silent broker delay everything until it responds or another broker leads
them, and half a minute longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka.errors import KafkaError

from sharegroup.kafka_clients.connections.log_offsets import OFFSETS_TIMEOUT_S
from tests.simulation.gateway.gateway_fleet import GatewayFleet
from tests.simulation.judges.judge import Key
from tests.simulation.members.row_member import Habits, RowMember
from tests.simulation.wire.wire_habits import Habit
from tests.simulation.wire.wire_member import WireMember
from tests.simulation.wire.wire_session import FetchSize
from tests.simulation.world import JOB_TOPICS, World

TOPIC = "watched"
GROUPS = ROWS, WIRE = "watch-rows", "watch-wire"
CLOCKS = ("job_clock", "broker_clocks")
#: Deliveries are watched in runs with one of these faults.
WATCHED = frozenset(("silent_leader", "job_clock"))
#: Faults that delay no delivery of another topic or group.
HARMLESS = frozenset(
    (
        "silent_leader", "alter_configs", "alter_offsets", "delete_offsets", "delete_group", "retention", "leader_away",
        "topic_again", "topic_grows", "transactions", "upkeep", "slow_members", "dying_members", "leaving_members",
        "static_members", "gateway_moves", "no_topic_ids", *CLOCKS,
    )
)  # fmt: skip
#: The maximum time of a record while all brokers respond: other micro-batches, slow messages.
USUAL_MS = 4_000
#: The same for a record whose own leader was silent, from its next response or the next leader.
AFTER_SILENCE_MS = 8_000
_CHECK_MS = 250
#: A waiting fetch does not include a partition that moves to its broker meanwhile.
_WIRE_HABIT = Habit("watch", rests_ms=(0, 200), explicit=0.0, size=FetchSize(50, 2_000, False))
#: The time after a silence in which a partition's records count as those of a silent leader. After the silence of a
#: leader of the job's topics, lost requests are sent again, and duplicate fetches are returned.
_TROUBLE_MS = 30_000
#: The intervals of appended records: after the begin of a silence, and otherwise.
_ROUNDS_MS, _EVERY_MS = (100, 1_000, 4_000, 12_000, 30_000), 60_000


@dataclass
class _Due:
    """An undelivered record, and the time without an excuse.

    `is_own`: the leader of its partition was silent or changed, shortly before it was appended or since.
    """

    key: Key
    offset: int
    is_own: bool
    waited_ms: int = 0


class DeliveryWatch:
    """The appends of records, and the times of their delivery. `longest_ms` is the longest time without an excuse, of
    records of other leaders and of a leader that was silent."""

    def __init__(self, world: World, fleet: GatewayFleet | None) -> None:
        self._world, self._clock, self._kafka, self._judge = world, world.clock, world.kafka, world.judge
        self._fleet = fleet
        self._due: list[_Due] = []
        #: The first offset that was delivered; before it the group may have had no reader.
        self._begun: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._was_silent = False
        #: The leader of each partition at the last check, and the last time at which it was silent or changed.
        self._leaders: list[int] = []
        self._troubled_ms: dict[int, int] = {}
        self._job_troubled_ms = 0
        has_silence = "silent_leader" in world.faults
        self._rule = "a silent leader delays only its own" if has_silence else "a wrong clock delays nothing"
        self.longest_ms = {False: 0, True: 0}

    def start(self) -> None:
        """Begin, in runs with silent leaders or a wrong clock and without faults that delay everything."""
        faults = self._world.faults
        if not faults & WATCHED or faults - HARMLESS:
            return
        topic = self._kafka.create_topic(TOPIC, len(self._kafka.brokers))
        good = Habits(max_records=500, work_ms=(20, 50), release=0, reject=0, gives_back=0)
        members = {ROWS: RowMember(self._world, f"{ROWS}-1", ROWS, (TOPIC,), good)}
        groups = [ROWS]
        members[ROWS].start()
        if self._fleet is not None:
            groups.append(WIRE)
            WireMember(self._world, self._fleet.side, f"{WIRE}-1", WIRE, (TOPIC,), _WIRE_HABIT).start()
        self._keys = [Key(group, TOPIC, topic.topic_id, p) for group in groups for p in range(len(topic.partitions))]
        self._again(10_000)
        self._check()

    def _again(self, delay_ms: float) -> None:
        self._clock.after(delay_ms, self._round)

    def _round(self) -> None:
        if self._clock.now_ms < self._world.calm_ms:
            self._append()
            self._again(_EVERY_MS if all(key in self._begun for key in self._keys) else 5_000)

    def _append(self) -> None:
        """Append a record to each partition whose leader responds."""
        for partition in range(len(self._kafka.brokers)):
            try:
                batch = self._kafka.append(TOPIC, partition, [(None, b"record")])
            except KafkaError:
                continue
            self._world.trace.add("watch", f"{TOPIC}-{partition} has {batch.base_offset}", f"{TOPIC}-{partition}")
            is_own = self._clock.now_ms - self._troubled_ms.get(partition, 0) < _TROUBLE_MS
            self._due += [_Due(key, batch.base_offset, is_own) for key in self._keys if key.partition == partition]

    def _check(self) -> None:
        silence = self._kafka.silence
        if silence and not self._was_silent:
            for delay_ms in _ROUNDS_MS:
                self._clock.after(delay_ms, self._append)
        self._was_silent = bool(silence)
        if any(map(self._kafka.has_silent_leader, JOB_TOPICS)):
            self._job_troubled_ms = self._clock.now_ms
        excuses_all = self._clock.now_ms - self._job_troubled_ms < _TROUBLE_MS
        before, self._leaders = self._leaders, [log.leader for log in self._kafka.topic(TOPIC).partitions]
        troubled = {
            p for p, leader in enumerate(self._leaders) if leader in silence or (before and before[p] != leader)
        }
        self._troubled_ms |= dict.fromkeys(troubled, self._clock.now_ms)
        self._due = [due for due in self._due if not self._is_over(due)]
        for due in self._due:
            due.is_own |= due.key.partition in troubled
            if excuses_all or due.key.partition in troubled:
                due.waited_ms = 0
            else:
                self._wait(due)
        self._clock.after(_CHECK_MS, self._check)

    def _is_over(self, due: _Due) -> bool:
        """Return whether a record is done: delivered, or from before the first delivery, when it had no reader."""
        if self._judge.was_delivered(due.key, due.offset):
            self._begun.setdefault(due.key, due.offset)
            return True
        if due.key in self._begun:
            return due.offset < self._begun[due.key]
        return due.waited_ms > 60_000

    def _wait(self, due: _Due) -> None:
        due.waited_ms += _CHECK_MS
        if due.key in self._begun:
            self.longest_ms[due.is_own] = max(self.longest_ms[due.is_own], due.waited_ms)
            limit_ms = AFTER_SILENCE_MS if due.is_own else USUAL_MS + 1_000 * OFFSETS_TIMEOUT_S
            if due.waited_ms > limit_ms:
                text = f"{due.offset} was not delivered for {due.waited_ms} ms, though its leader answers"
                self._judge.violate(self._rule, text, due.key)
