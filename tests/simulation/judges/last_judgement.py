"""The final checks, long after the last fault: the tables compared with the responses that clients received.

- every record below a start offset is finished, with one final state, which matches its member's response;
- the state in the tables is the state that the operator uses, and matches `delivery_log`;
- a share-partition began where its group's config of that time says;
- for records replaced by an unclean election, `delivery_log` contains what was finished and is not delivered again;
- everything is delivered; records archived because their locks expired were received by a member, unless the job's
  topics or elections could prevent that.

For a topic without an id that was deleted and created again, the checks are only that operator and table agree and that
everything is delivered, because `delivery_log` does not separate the records of the two topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.config.keys.offset_reset import AutoOffsetReset, OffsetResetStrategy
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.reading.state_table import fold_states
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_GROUP_STATE
from sharegroup.types import AcknowledgeType, Cause, RecordState, StateBatch
from tests.simulation.brokers.kafka_log import PartitionLog
from tests.simulation.job.job_host import JobHost
from tests.simulation.judges.judge import Key
from tests.simulation.judges.reservation_judge import judge_reservations
from tests.simulation.judges.state_witness import compare_operator_states
from tests.simulation.members import table_adapter
from tests.simulation.members.table_adapter import TableKey
from tests.simulation.world import RESERVATIONS, World

_FINAL = {RecordState.ACKNOWLEDGED.name, RecordState.ARCHIVED.name}
#: Faults under which each member reads all that it receives.
_ALL_IS_SEEN = frozenset(("job_topics_grow", "job_transactions", "unclean_election", "topic_grows", "upkeep"))
_ANSWERED = {AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED.name, AcknowledgeType.REJECT: RecordState.ARCHIVED.name}


@dataclass(frozen=True)
class _Record:
    """The state of a record after its transitions."""

    state: str
    delivery_count: int
    member: str | None


_NEW = _Record(RecordState.AVAILABLE.name, 0, None)


class _Beginning(NamedTuple):
    """A share-partition's first record of a state epoch."""

    batch: tuple[int, int]
    start_offset: int
    time_ms: int


class LastJudgement:
    """The checks of the tables when the run is calm; they add to the judge's violations."""

    def __init__(self, world: World, host: JobHost) -> None:
        self._world, self._host, self._judge = world, host, world.judge
        self._states = fold_states(world.tables.arrow(SHARE_GROUP_STATE))
        self._beginnings = {key: found for key, found in self._all_beginnings().items() if found}
        #: By offset, the time of the micro-batch that finished it, in the share-partition's present life.
        self._finished_ms: dict[TableKey, dict[int, int]] = {}
        #: The reported unclean elections: (first offset, last offset, time).
        self._replaced: dict[TableKey, list[tuple[int, int, int]]] = {}
        self._records = self._folded_log()

    def judge(self, group_ids: list[str], topics: tuple[str, ...]) -> None:
        """Run all checks; `group_ids` and `topics` are those with members."""
        for key, state in sorted(self._states.items()):
            named = table_adapter.of_state(key)
            if not self._judge.may_be_another(named.topic_id):
                self._check_below_start(named, state)
                self._check_views(named, state)
        if self._host.running is not None:
            compare_operator_states(self._world, self._host.running)
        self._check_answers()
        self._check_beginnings()
        self._check_elections()
        self._check_seen()
        self._check_delivered(group_ids, topics)

    # -- from the tables -------------------------------------------------------------------------------------------

    def _all_beginnings(self) -> dict[TableKey, list[_Beginning]]:
        """Return by share-partition the beginnings of its present life and the earlier ones."""
        lives: dict[TableKey, list[_Beginning]] = {}
        epochs: dict[TableKey, int] = {}
        for row in self._world.tables.rows(SHARE_GROUP_STATE):
            key = table_adapter.of_row(row)
            if row["record_type"] == "Tombstone":
                epochs[key] = -1
                lives.setdefault(key, []).append(_Beginning((row["leader_epoch"], row["batch_id"]), -1, 0))
            elif row["state_epoch"] > epochs.get(key, -1):
                epochs[key] = row["state_epoch"]
                batch = row["leader_epoch"], row["batch_id"]
                time_ms = round(row["time"].timestamp() * 1000)
                lives.setdefault(key, []).append(_Beginning(batch, row["start_offset"], time_ms))
        return lives

    def _folded_log(self) -> dict[TableKey, dict[int, _Record]]:
        """Return each record after its transitions; each must begin in the state in which the previous one ended."""
        records: dict[TableKey, dict[int, _Record]] = {}
        due = {key: list(found) for key, found in self._beginnings.items()}
        for row in self._world.tables.rows(DELIVERY_LOG):
            key, batch = table_adapter.of_row(row), (row["leader_epoch"], row["batch_id"])
            ends_life = row["cause"] in table_adapter.ENDS_OF_LIFE
            while due.get(key) and (due[key][0].batch < batch or (due[key][0].batch == batch and not ends_life)):
                due[key].pop(0)
                records[key], self._finished_ms[key] = {}, {}
            time_ms = round(row["time"].timestamp() * 1000)
            if row["cause"] == Cause.UNCLEAN_ELECTION.value:
                self._replaced.setdefault(key, []).append((row["first_offset"], row["last_offset"], time_ms))
                continue
            known, finished_ms = records.setdefault(key, {}), self._finished_ms.setdefault(key, {})
            after = _Record(row["to_state"], row["delivery_count"], row["member_id"])
            for offset in range(row["first_offset"], row["last_offset"] + 1):
                before = known.get(offset, _NEW)
                if before.state != row["from_state"] and not self._judge.may_be_another(key.topic_id):
                    self._judge.violate(
                        "one final state",
                        f"{offset}: was {before.state}, then "
                        f"{row['from_state']} -> {row['to_state']} by {row['cause']}",
                        key.named(),
                    )
                known[offset] = after
                if after.state in _FINAL:
                    finished_ms[offset] = time_ms
        for key, left in due.items():
            if left:
                records[key], self._finished_ms[key] = {}, {}
        return records

    def _check_below_start(self, key: TableKey, state: ShareGroupOffset) -> None:
        log = table_adapter.log_of(self._world.kafka, key)
        first = max(self._beginnings[key][-1].start_offset, log.log_start_offset if log else 0)
        records = self._records.get(key, {})
        for offset in range(first, state.header.start_offset):
            found = records.get(offset, _NEW)
            if found.state not in _FINAL:
                start = state.header.start_offset
                text = f"{offset}: is {found.state} in delivery_log, and below the start offset {start}"
                self._judge.violate("finished below the start offset", text, key.named())
                return

    def _check_views(self, key: TableKey, state: ShareGroupOffset) -> None:
        start = state.header.start_offset
        told = {o: r for o, r in self._records.get(key, {}).items() if o >= start and r != _NEW}
        delivered = tuple(batch for batch in state.state_batches if not _is_reserved(batch))
        stored = dict(_by_offset(delivered))
        for offset in sorted({*told, *stored}):
            left, right = told.get(offset, _NEW), stored.get(offset, _NEW)
            if (left.state, left.delivery_count) != (right.state, right.delivery_count) or (
                left.state == RecordState.ACQUIRED.name and left.member != right.member
            ):
                text = f"{offset}: delivery_log {_said(left)}, share_group_state {_said(right)}"
                self._judge.violate("views agree", text, key.named())
                return

    # -- against responses -----------------------------------------------------------------------------------------

    def _check_answers(self) -> None:
        for key in self._judge.known():
            log = table_adapter.log_of(self._world.kafka, table_adapter.of_key(key))
            if self._judge.is_in_question(key) or log is None:
                continue
            records = self._records.get(table_adapter.of_key(key), {})
            for offset, kind in sorted(self._judge.finished_by_answer(key).items()):
                found = records.get(offset, _NEW)
                # Records below the start offset are skipped with success, as in Kafka: retention finished them.
                if found.state != _ANSWERED[kind] and offset >= log.log_start_offset:
                    text = f"{offset}: {kind.name} was answered OK, in delivery_log it is {_said(found)}"
                    self._judge.violate("what is answered is true", text, key)
                    break

    def _check_beginnings(self) -> None:
        for key, lives in self._beginnings.items():
            log, topic_id = table_adapter.log_of(self._world.kafka, key), key.topic_id
            wanted_ms = self._judge.wanted_ms.get((key.group_id, topic_id))
            last = lives[-1]
            if log is None or wanted_ms is None or last.start_offset < 0 or self._judge.may_be_another(topic_id):
                continue
            if log.lost_end:  # an election has changed the history of the log
                continue
            if self._judge.was_altered(key.group_id, key.topic, key.partition) or last.time_ms < wanted_ms:
                continue
            latest_ms = last.time_ms + self._world.kafka.most_behind_ms  # its time is of a broker's clock
            allowed = list(self._allowed_starts(key, log, wanted_ms, latest_ms))
            if not any(low <= last.start_offset <= high for _, low, high in allowed):
                told = ", ".join(f"{name} {low}..{high}" for name, low, high in allowed)
                since_s = (wanted_ms - self._world.clock.start_ms) / 1000
                text = f"began at {last.start_offset}, wanted since {since_s:.3f}, its config says {told}"
                self._judge.violate("a config that was answered is in force", text, key.named())

    def _check_elections(self) -> None:
        """Check that a job that runs all the time detects each election, if topics have ids.

        The tables have the brokers' time, which may be behind.
        """
        kafka = self._world.kafka
        if self._host.starts > 1 or not kafka.has_topic_ids or "silent_leader" in self._world.faults:
            return
        for cut in kafka.cuts:
            for key, finished_ms in sorted(self._finished_ms.items()):
                if (key.topic_id, key.partition) == (cut.topic_id, cut.partition):
                    since_ms = cut.time_ms - kafka.most_behind_ms
                    replaced = [o for o in range(cut.offset, cut.end) if finished_ms.get(o, since_ms) < since_ms]
                    self._check_told(key, replaced, since_ms)

    def _check_seen(self) -> None:
        if not self._world.faults <= _ALL_IS_SEEN:
            return
        for row in self._world.tables.rows(DELIVERY_LOG):
            if row["cause"] == Cause.LOCK_TIMEOUT.value and row["to_state"] == RecordState.ARCHIVED.name:
                key = Key(*table_adapter.of_row(row))
                log = table_adapter.log_of(self._world.kafka, table_adapter.of_key(key))
                first, end = row["first_offset"], row["last_offset"] + 1
                # No member receives an offset without a record, nor a record that an election has removed.
                offsets = () if log is None else (record.offset for _, record in log.records(first, end))
                for offset in offsets:
                    if log is not None and offset >= log.lost_end and not self._judge.was_delivered(key, offset):
                        count = row["delivery_count"]
                        self._judge.violate("archived unseen", f"{offset}: given out {count} times, never seen", key)

    def _check_told(self, key: TableKey, offsets: list[int], since_ms: int) -> None:
        told = [(first, last) for first, last, time_ms in self._replaced.get(key, ()) if time_ms >= since_ms]
        missing = [offset for offset in offsets if not any(first <= offset <= last for first, last in told)]
        if missing:
            text = f"{missing[0]}..{missing[-1]} were finished when an election replaced them, and nobody was told"
            self._judge.violate("an unclean election is told", text, key.named())

    def _allowed_starts(
        self, key: TableKey, log: PartitionLog, from_ms: int, to_ms: int
    ) -> Iterator[tuple[str, int, int]]:
        if key.partition >= log.first_count or self._judge.was_any_altered(key.group_id, key.topic):
            yield "added later", log.starts_at(from_ms), log.starts_at(to_ms)
        for value in self._judge.possible_values(key.group_id, "share.auto.offset.reset", "latest", from_ms, to_ms):
            reset = AutoOffsetReset.parse(value)
            if reset.strategy is OffsetResetStrategy.EARLIEST:
                yield value, log.starts_at(from_ms), log.starts_at(to_ms)
            elif reset.strategy is OffsetResetStrategy.LATEST:
                yield value, log.stable_at(from_ms), log.ends_at(to_ms)
            else:
                duration_ms = reset.duration_ms or 0
                yield value, log.offset_at(from_ms - duration_ms, from_ms), log.offset_at(to_ms - duration_ms, to_ms)

    def _check_delivered(self, group_ids: list[str], topics: tuple[str, ...]) -> None:
        if self._host.running is None:
            self._judge.violate("everything is delivered", "no job runs")
            return
        for group_id in group_ids:
            for topic in topics:
                if topic in self._world.kafka.topics:
                    found = self._world.kafka.topics[topic]
                    for partition, log in enumerate(found.partitions):
                        self._check_partition(Key(group_id, topic, found.topic_id, partition), log)

    def _check_partition(self, key: Key, log: PartitionLog) -> None:
        if log.log_start_offset == log.log_end_offset:
            return
        state = self._states.get(table_adapter.to_state_key(table_adapter.of_key(key)))
        if state is None:
            self._judge.violate("everything is delivered", "there is no state", key)
            return
        done = _done_up_to(state)
        was_altered = self._judge.was_altered(key.group_id, key.topic, key.partition)
        was_longer = log.lost_end > log.log_end_offset
        if done < log.log_end_offset or (done > log.log_end_offset and not (was_altered or was_longer)):
            text = f"start offset {state.header.start_offset}, log end {log.log_end_offset}"
            self._judge.violate("everything is delivered", text, key)


def _done_up_to(state: ShareGroupOffset) -> int:
    """Return the first offset that is not finished. The start offset may be below it: if the log's start moves into
    finished records, it stops there, as in Kafka, until something else moves it."""
    done = state.header.start_offset
    for batch in sorted(state.state_batches):
        if batch.first_offset <= done and RecordState(batch.delivery_state).is_terminal:
            done = max(done, batch.last_offset + 1)
    return done


def _is_reserved(batch: StateBatch) -> bool:
    """Return whether a gateway holds the records for its members; `delivery_log` does not show that."""
    return batch.delivery_state is RecordState.ACQUIRED and batch.delivery_count == 0


def _by_offset(batches: tuple[StateBatch, ...]) -> Iterator[tuple[int, _Record]]:
    for first, last, state, count, member_id, _ in batches:
        for offset in range(first, last + 1):
            record = _Record(state.name, count, member_id)
            if record != _NEW:
                yield offset, record


def _said(record: _Record) -> str:
    return f"{record.state} ({record.delivery_count}{', ' + record.member if record.member else ''})"


def judge_at_the_end(world: World, host: JobHost, group_ids: list[str], topics: tuple[str, ...]) -> None:
    """Add all problems to the judge's violations."""
    LastJudgement(world, host).judge(group_ids, topics)
    if RESERVATIONS in world.faults:
        judge_reservations(world)
