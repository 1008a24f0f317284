"""A structured streaming query as Spark runs it, as far as the job can observe: micro-batches, their logs, replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from sharegroup.core.operators import rows
from sharegroup.core.operators.operator import Operator
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.kafka_clients.job_clock import BrokersTime
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.checkpoint_folder import CheckpointFolder, PlannedBatch

KeyedRow = tuple[str, str]
#: An operator with the state of a key.
Restore = Callable[[str, "str | None"], Operator]


class Source(Protocol):
    """A Python streaming source beside the request topic."""

    def initial(self) -> Any:
        """Return the initial offset of a query without a checkpoint."""

    def read(self, start: Any) -> tuple[Iterable[KeyedRow], Any]:
        """Return the changes and the offset after them."""

    def again(self, start: Any, end: Any) -> Iterable[KeyedRow]:
        """Return the rows between two offsets."""


class Process(Protocol):
    """The process in which a query runs; after a kill each method raises."""

    def pause(self, least_ms: float, most_ms: float) -> None:
        """Let a random time pass."""

    def wait(self, until: Callable[[], bool], most_ms: float) -> None:
        """Let time pass until a condition holds, up to a limit."""

    def point(self, where: str) -> None:
        """Pass a point at which the process may die."""


#: The time that Spark's Kafka source waits for a leader before its query fails, in ms.
_LEADERS_MS = 60_000


class RequestTopic:
    """The request topic as Spark's Kafka source reads it: rows of committed transactions and without a transaction.

    `key_of` returns a row's operator key from its value. `ends` and `rows` wait for all leaders, and raise
    RequestTimedOutError if one stays silent.
    """

    def __init__(
        self, process: Process, kafka: SimulatedKafka, topic: str, most: int, key_of: Callable[[str], str]
    ) -> None:
        self._process, self._kafka, self._topic, self._most, self._key_of = process, kafka, topic, most, key_of

    def starting(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return the start offsets of a query without a checkpoint."""
        logs = self._kafka.topic(self._topic).partitions
        return {p: positions.get(p, log.log_start_offset) for p, log in enumerate(logs)}

    def ends(self, start: Mapping[int, int]) -> dict[int, int]:
        """Return the end offsets of the next batch; offsets deleted by retention are skipped."""
        self._wait_for_leaders()
        ends, left = {}, self._most
        for partition in range(len(self._kafka.topic(self._topic).partitions)):
            log = self._kafka.log(self._topic, partition)
            first = max(start.get(partition, 0), log.log_start_offset)
            count = max(0, min(log.last_stable_offset - first, left))
            left -= count
            ends[partition] = first + count if count else start.get(partition, 0)
        return ends

    def has_more(self, start: Mapping[int, int]) -> bool:
        """Return whether there are unread rows."""
        logs = self._kafka.topic(self._topic).partitions
        return any(
            log.last_stable_offset > max(start.get(partition, 0), log.log_start_offset)
            for partition, log in enumerate(logs)
        )

    def rows(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterable[KeyedRow]:
        """Return the rows of a batch."""
        self._wait_for_leaders()
        for partition, last in end.items():
            for append_ms, record in self._kafka.log(self._topic, partition).committed(start.get(partition, 0), last):
                value = record.value.decode(errors="replace")
                row = f"{rows.REQUEST}\t{partition}\t{record.offset}\t{append_ms}\t{value}"
                yield self._key_of(value), row

    def _wait_for_leaders(self) -> None:
        kafka = self._kafka
        if kafka.has_silent_leader(self._topic):
            self._process.wait(lambda: not kafka.has_silent_leader(self._topic), _LEADERS_MS)


class MicroBatches:
    """The batches of one query; `run_next` runs one if there is anything to do."""

    def __init__(
        self,
        process: Process,
        random: Random,
        folder: CheckpointFolder,
        source: Source,
        requests: RequestTopic,
        restore: Restore,
        query: QueryRun,
    ) -> None:
        self._process, self._random = process, random
        self._folder, self._source, self._requests, self._restore = folder, source, requests, restore
        self._query = query
        if folder.first is None:
            folder.first = source.initial(), requests.starting(query.steps.positions)
        self._planned: Iterable[KeyedRow] | None = None

    @property
    def state(self) -> Mapping[str, str]:
        """Return the operator's state after the last committed batch."""
        return self._folder.states[self._folder.commits]

    @property
    def is_between_batches(self) -> bool:
        """Return whether no planned batch is uncommitted."""
        return self._folder.commits == len(self._folder.offsets)

    @property
    def has_unread(self) -> bool:
        """Return whether there are requests for a next batch."""
        return self._requests.has_more(self._folder.starts(self._folder.commits)[1])

    def run_next(self) -> bool:
        """Run the next batch, or repeat the last one; return False if nothing has changed."""
        folder = self._folder
        batch_id = folder.commits
        planned: Sequence[KeyedRow] | None = None
        if batch_id == len(folder.offsets):
            planned = self._plan(batch_id)
            if planned is None:
                return False
            self._process.point("planned")
        time = self._query.begin_batch(batch_id)
        self._query.finish_batch(batch_id, self._outputs(batch_id, planned, time))
        self._process.point("returned")
        folder.commits = batch_id + 1
        folder.forget_old()
        self._process.point("committed")
        return True

    def _plan(self, batch_id: int) -> Sequence[KeyedRow] | None:
        log, requests = self._folder.starts(batch_id)
        found, end_log = self._source.read(log)
        self._process.pause(0.5, 6)
        end_requests = self._requests.ends(requests)
        if end_log == log and end_requests == requests:
            return None
        self._process.pause(0.5, 6)
        self._folder.offsets.append(PlannedBatch(end_log, end_requests))
        return list(found)

    def _outputs(self, batch_id: int, planned: Sequence[KeyedRow] | None, time: BrokersTime) -> list[str]:
        log, requests = self._folder.starts(batch_id)
        batch = self._folder.offsets[batch_id]
        found = self._source.again(log, batch.log) if planned is None else planned
        by_key: dict[str, list[str]] = {}
        for key, row in (*found, *self._requests.rows(requests, batch.requests)):
            by_key.setdefault(key, []).append(row)
        self._process.pause(10, 120)
        before = self._folder.states[batch_id]
        after, outputs = dict(before), []
        keys = sorted(by_key)
        self._random.shuffle(keys)
        for key in keys:
            self._random.shuffle(by_key[key])
            operator = self._restore(key, before.get(key))
            output = operator.run(by_key[key], time.latest_ms, time.earliest_ms)
            state = operator.dump()
            outputs.append(output.encode())
            if state is None:
                after.pop(key, None)
            else:
                after[key] = state
        self._folder.states[batch_id + 1] = after
        self._process.point("computed")
        return outputs
