"""Run a worked example of share-coordinator behaviour against `share_coordinator` and compare.

A scenario is a line of `share_coordinator.jsonl`: operations on one coordinator shard (`model: coordinator`; group g,
topic t1 with three partitions), or two lists of state batches to combine (`model: combine`). `expect.steps` is what
must hold, null where nothing is asserted; `observed` is everything Kafka answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sharegroup.errors import RequestError
from sharegroup.share_coordinator.next_record import StateWrite
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.share_coordinator.share_coordinator_shard import (
    CoordinatorResult,
    ReadStateResponse,
    ReadStateSummaryResponse,
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
)
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.share_coordinator.state_batch_combiner import Precedence, combine
from sharegroup.types import RecordState, SharePartitionKey, StateBatch

Json = dict[str, Any]

#: The Kafka release whose behaviour counts where releases differ.
NEWEST_VERSION = "4.4.0"

#: Observed values, by (scenario, step, key), that no newer release gives although the scenario names no versions. Its
#: `expect` holds. cow-013: a write with start offset -1 recorded -1 up to 4.3; 4.4 records the resolved one (cow-021).
CONTRADICTED = frozenset({("cow-013", 3, "records")})

_PARTITIONS = {"t1": 3}
_NO_TOPIC = "null"


def is_superseded(scenario: Mapping[str, Any]) -> bool:
    """Whether the scenario shows only how older Kafka releases behaved."""
    return NEWEST_VERSION not in scenario.get("versions", [NEWEST_VERSION])


def run(scenario: Mapping[str, Any]) -> list[Json]:
    """The result of each step, with the keys of `expect.steps` and `observed`."""
    if scenario["model"] == "combine":
        return [_combine(step) for step in scenario["steps"]]
    trace = _CoordinatorTrace(ShareCoordinatorConfig(**scenario["config"]))
    return [trace.run(step) for step in scenario["steps"]]


def differences(
    scenario: Mapping[str, Any], actual: Sequence[Mapping[str, Any]]
) -> list[tuple[int, str, object, object]]:
    """(step, key, expected, actual) for each asserted key that differs; combined batches are compared per offset.

    None for a superseded scenario: a newer release behaves otherwise, and another scenario says how.
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
            **{key: value for key, value in seen.items() if (scenario["id"], number, key) not in CONTRADICTED},
            **(wanted or {}),
        }
        for number, (seen, wanted) in enumerate(zip(observed, expected, strict=True))
    ]


def _equal(key: str, expected: Any, actual: Any) -> bool:
    return _per_offset(expected) == _per_offset(actual) if key == "batches" else bool(expected == actual)


def _per_offset(batches: Sequence[Sequence[Any]]) -> dict[int, list[Any]]:
    return {offset: list(batch[2:]) for batch in batches for offset in range(batch[0], batch[1] + 1)}


class _CoordinatorTrace:
    """One shard, its clock, and a log that is replayed as soon as it is appended to."""

    def __init__(self, config: ShareCoordinatorConfig) -> None:
        self._shard = ShareCoordinatorShard(config, _PARTITIONS.get)
        self._now_ms = 0

    def run(self, step: Mapping[str, Any]) -> Json:
        key = SharePartitionKey("g", _topic(step), step.get("partition", 0))
        operation = step["op"]
        if operation == "advance_ms":
            self._now_ms += step["ms"]
            result: Json = {"records": []}
        elif operation == "last_redundant_offset":
            result = {"last_redundant_offset": self._shard.last_redundant_offset(), "records": []}
        elif operation == "snapshot_cold":
            result = {"records": self._append(self._shard.snapshot_cold(self._now_ms))}
        else:
            result = self._request(lambda: self._handle(operation, key, step))
        return {**result, **self._state(key)}

    def _request(self, handle: Callable[[], CoordinatorResult[Any]]) -> Json:
        try:
            handled = handle()
        except RequestError as refused:
            return {"error": refused.code.name, "records": []}
        result: Json = {"error": None, "records": self._append(handled)}
        return result if handled.response is None else {**result, "response": _response(handled.response)}

    def _handle(self, operation: str, key: SharePartitionKey, step: Mapping[str, Any]) -> CoordinatorResult[Any]:
        if operation == "init_state":
            return self._shard.init_state(key, step["state_epoch"], step["start_offset"])
        if operation == "write_state":
            return self._shard.write_state(_write(key, step))
        if operation == "read_state":
            return self._shard.read_state(key, step["leader_epoch"])
        if operation == "read_summary":
            return self._shard.read_state_summary(key)
        if operation == "delete_state":
            return self._shard.delete_state(key)
        raise ValueError(f"unknown operation {operation!r}")

    def _append(self, result: CoordinatorResult[Any]) -> list[Json]:
        for record in result.records:
            self._shard.replay(record, self._now_ms)
        return [_record(record) for record in result.records]

    def _state(self, key: SharePartitionKey) -> Json:
        state = self._shard.states.get(key)
        if state is None:
            return {"state": None, "fence": {"leader_epoch": None, "state_epoch": None}}
        fence = {"leader_epoch": state.header.leader_epoch_fence, "state_epoch": state.header.state_epoch}
        return {"state": _merged(state), "fence": fence}


def _combine(step: Mapping[str, Any]) -> Json:
    batches = _state_batches([*step["so_far"], *step["new"]])
    return {"batches": _json_batches(combine(batches, step["start_offset"], Precedence.HIGHEST))}


def _topic(step: Mapping[str, Any]) -> str:
    topic: str = step.get("topic", "t1")
    return "" if topic == _NO_TOPIC else topic


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


def _response(response: ReadStateResponse | ReadStateSummaryResponse) -> Json:
    if isinstance(response, ReadStateSummaryResponse):
        return response._asdict()
    return {
        "start_offset": response.start_offset,
        "state_epoch": response.state_epoch,
        "batches": _json_batches(response.state_batches),
    }
