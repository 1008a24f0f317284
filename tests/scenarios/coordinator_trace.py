"""Run a worked example of share-coordinator behaviour on what the job writes and recovers its state with, and compare.

A scenario is a line of `share_coordinator.jsonl`: operations on one coordinator shard (`model: coordinator`; group g,
topic t1), or two lists of state batches to combine (`model: combine`). `expect.steps` is what
must hold, null where nothing is asserted; `observed` is everything Kafka answered.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from sharegroup.core.share_coordinator.fold import fold_records
from sharegroup.core.share_coordinator.next_record import StateWrite, initial_record, next_record
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord, tombstone_record
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.core.share_coordinator.state_batch_combiner import Precedence, combine_batches
from sharegroup.errors import RequestError
from sharegroup.types import UNCHANGED, RecordState, SharePartitionKey, StateBatch

Json = dict[str, Any]

#: The Kafka release whose behaviour counts where releases differ.
NEWEST_VERSION = "4.4.0"

#: Expected values, by (scenario, step, key), that another scenario contradicts. cow-021: 4.4 resolves a start offset of
#: -1 that was sent before it records it; cow-013 records the -1, and so does this project. Both replay to the same.
CONTRADICTED = frozenset({("cow-021", 2, "records")})

_RPC_CHECKS = "the share coordinator's RPC checks: nobody but the job's own operator writes here"
_LEADER_EPOCHS = "a read records the leader's epoch: here the table's writer does, and its commits are the fence"
_PRUNING = "what may be pruned: here whole days of the table go, and a state without updates is repeated in time"
#: Scenarios of what the job does not do, and why.
NOT_OURS = {
    **dict.fromkeys(("cow-003", "cow-015", "cor-006", "cod-001", "cod-003", "coi-003"), _RPC_CHECKS),
    **dict.fromkeys(("cow-011", "cor-004", "cor-008", "coi-001"), _LEADER_EPOCHS),
    **dict.fromkeys(("cos-002", "cos-004"), _PRUNING),
}

#: Scenarios have no records of who holds what, and Kafka lets the higher delivery count win.
KAFKAS = Precedence.HIGHEST


def is_superseded(scenario: Mapping[str, Any]) -> bool:
    """Whether the scenario shows only how older Kafka releases behaved, or what the job does not do (`NOT_OURS`)."""
    return NEWEST_VERSION not in scenario.get("versions", [NEWEST_VERSION]) or scenario.get("id") in NOT_OURS


def run(scenario: Mapping[str, Any]) -> list[Json]:
    """The result of each step, with the keys of `expect.steps` and `observed`."""
    if scenario["model"] == "combine":
        return [_combine(step) for step in scenario["steps"]]
    trace = _CoordinatorTrace(**scenario["config"])
    return [trace.run(step) for step in scenario["steps"]]


def differences(
    scenario: Mapping[str, Any], actual: Sequence[Mapping[str, Any]]
) -> list[tuple[int, str, object, object]]:
    """(step, key, expected, actual) for each asserted key that differs; combined batches are compared per offset.

    None for a superseded scenario: a newer release behaves otherwise, and another scenario says how. None for one of
    `NOT_OURS`.
    """
    if is_superseded(scenario):
        return []
    return [
        (number, key, value, actual[number].get(key))
        for number, step in enumerate(_asserted(scenario))
        for key, value in step.items()
        if key not in actual[number] or not _equal(key, value, actual[number][key])
    ]


def _asserted(scenario: Mapping[str, Any]) -> list[Json]:
    """What must hold after each step: what was observed, and above it what is expected."""
    expected = scenario["expect"]["steps"]
    observed = scenario.get("observed", [{}] * len(expected))
    return [
        {
            key: value
            for key, value in {**seen, **(wanted or {})}.items()
            if (scenario["id"], number, key) not in CONTRADICTED
        }
        for number, (seen, wanted) in enumerate(zip(observed, expected, strict=True))
    ]


def _equal(key: str, expected: Any, actual: Any) -> bool:
    return _per_offset(expected) == _per_offset(actual) if key == "batches" else bool(expected == actual)


def _per_offset(batches: Sequence[Sequence[Any]]) -> dict[int, list[Any]]:
    return {offset: list(batch[2:]) for batch in batches for offset in range(batch[0], batch[1] + 1)}


class _CoordinatorTrace:
    """The states of some share-partitions as the job writes and recovers them, their records, and a clock.

    A request is decided by the header, as in the operator, and its record is appended. What it adds up to is what a
    recovery folds from all records.
    """

    def __init__(self, updates_per_snapshot: int = 500, cold_snapshot_interval_ms: int = 300_000) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._cold_snapshot_interval_ms = cold_snapshot_interval_ms
        self._records: list[ShareGroupStateRecord] = []
        self._headers: dict[SharePartitionKey, ShareGroupOffsetHeader] = {}
        self._now_ms = 0

    def run(self, step: Mapping[str, Any]) -> Json:
        key = SharePartitionKey("g", "t1", "t1", step.get("partition", 0))
        operation = step["op"]
        if operation == "advance_ms":
            self._now_ms += step["ms"]
            result: Json = {"records": []}
        elif operation == "snapshot_cold":
            result = {"records": [self._append(record) for record in self._cold_snapshots()]}
        else:
            result = self._request(operation, key, step)
        return {**result, **self._state(key)}

    def _request(self, operation: str, key: SharePartitionKey, step: Mapping[str, Any]) -> Json:
        try:
            if operation == "init_state":
                record = initial_record(key, self._headers.get(key), step["state_epoch"], step["start_offset"])
            elif operation == "write_state":
                return self._write(_write(key, step))
            elif operation == "delete_state":
                known = [tombstone_record(key)] if key in self._headers else []
                return {"error": None, "records": [self._append(record) for record in known]}
            elif operation == "read_state":
                return {
                    "error": None,
                    "records": [],
                    "response": _response(fold_records(self._records, 0, KAFKAS)[key]),
                }
            else:
                raise ValueError(f"unknown operation {operation!r}")
        except RequestError as refused:
            return {"error": refused.code.name, "records": []}
        return {"error": None, "records": [self._append(record)]}

    def _write(self, write: StateWrite) -> Json:
        """Kafka spells out what did not change; an update of this project says -1 there, and also where that was sent.

        So a field that the writer passed is compared by its value after the record.
        """
        header = self._headers[write.key]
        record = next_record(header, write, self._updates_per_snapshot, lambda: self._merged(write), KAFKAS)
        said, after = self._append(record), self._headers[write.key]
        if record.kind is RecordKind.UPDATE:
            said["leader_epoch"] = after.leader_epoch
            for name in ("start_offset", "delivery_complete_count"):
                said[name] = UNCHANGED if getattr(write, name) == UNCHANGED else getattr(after, name)
        return {"error": None, "records": [said]}

    def _merged(self, write: StateWrite) -> Sequence[StateBatch]:
        """All batches after the write: the operator's window has them at hand."""
        return (*fold_records(self._records, 0, KAFKAS)[write.key].state_batches, *write.state_batches)

    def _cold_snapshots(self) -> list[ShareGroupStateRecord]:
        """As a tick asks for them: a write that changes nothing, as a snapshot."""
        return [
            next_record(header, nothing, 0, functools.partial(self._merged, nothing), KAFKAS)
            for key, header in self._headers.items()
            if header.snapshot_due_ms(self._cold_snapshot_interval_ms) <= self._now_ms
            for nothing in [StateWrite(key, header.state_epoch, header.leader_epoch_fence)]
        ]

    def _append(self, record: ShareGroupStateRecord) -> Json:
        self._records.append(record)
        header = self._headers.pop(record.key, None)
        if record.kind is not RecordKind.TOMBSTONE:
            after = (
                header.apply_record(record, self._now_ms)
                if header
                else ShareGroupOffsetHeader.from_snapshot(record, self._now_ms)
            )
            self._headers[record.key] = after
        return _record(record)

    def _state(self, key: SharePartitionKey) -> Json:
        state = fold_records(self._records, 0, KAFKAS).get(key)
        if state is None:
            return {"state": None, "fence": {"leader_epoch": None, "state_epoch": None}}
        fence = {"leader_epoch": state.header.leader_epoch_fence, "state_epoch": state.header.state_epoch}
        return {"state": _merged(state), "fence": fence}


def _combine(step: Mapping[str, Any]) -> Json:
    batches = _state_batches([*step["so_far"], *step["new"]])
    return {"batches": _json_batches(combine_batches(batches, step["start_offset"], Precedence.HIGHEST))}


def _write(key: SharePartitionKey, step: Mapping[str, Any]) -> StateWrite:
    return StateWrite(
        key,
        step["state_epoch"],
        step["leader_epoch"],
        step["start_offset"],
        step["delivery_complete_count"],
        _state_batches(step["batches"]),
    )


def _state_batches(batches: Sequence[Sequence[Any]]) -> list[StateBatch]:
    return [StateBatch(first, last, RecordState[state], count) for first, last, state, count in batches]


def _json_batches(batches: Sequence[StateBatch]) -> list[list[Any]]:
    return [
        [batch.first_offset, batch.last_offset, batch.delivery_state.name, batch.delivery_count] for batch in batches
    ]


def _record(record: ShareGroupStateRecord) -> Json:
    """The record as scenarios write it: an update has no state epoch, a tombstone no value."""
    if record.kind is RecordKind.TOMBSTONE:
        return {"type": record.kind.value, "partition": record.key.partition}
    fields = record._asdict()
    epochs = ["snapshot_epoch", "state_epoch", "leader_epoch"]
    if record.kind is RecordKind.UPDATE:
        epochs.remove("state_epoch")
    values = {name: fields[name] for name in [*epochs, "start_offset", "delivery_complete_count"]}
    return {"type": record.kind.value, **values, "batches": _json_batches(record.state_batches)}


def _merged(state: ShareGroupOffset) -> Json:
    names = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    return {**{name: getattr(state.header, name) for name in names}, "batches": _json_batches(state.state_batches)}


def _response(state: ShareGroupOffset) -> Json:
    header, batches = state
    return {"start_offset": header.start_offset, "state_epoch": header.state_epoch, "batches": _json_batches(batches)}
