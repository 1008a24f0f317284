"""Run a worked example of share-partition behaviour against `share_partition` and compare.

A scenario is a line of `share_partition.jsonl`: the durable state to load, a configuration, and steps of a member or of
the log, with what Kafka answered. Time starts at 0 and moves with `advance_ms` only; locks that are then over expire at
once. `tests/scenarios/README.md` has the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.core.share_partition.acknowledgement import AcknowledgementRejected
from sharegroup.errors import RequestError
from sharegroup.protocol.range_map import RangeMap
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, RecordState, StateBatch

Json = dict[str, Any]

#: Stands for an acknowledge type with an unknown name.
_UNKNOWN_TYPE = -1


def run(scenario: Mapping[str, Any]) -> list[Json]:
    """The result of each step: `spso`, `records`, and `acquired` of a fetch, `error` of an acknowledgement.

    Raises KeyError, TypeError or ValueError when the scenario is not of the documented form.
    """
    trace = SharePartitionTrace(scenario)
    return [trace.run(step) for step in scenario["steps"]]


def differences(
    scenario: Mapping[str, Any], actual: Sequence[Mapping[str, Any]]
) -> list[tuple[int, str, object, object]]:
    """(step, key, expected, actual) for each key of `expect` that differs."""
    expected = scenario["expect"]
    if len(expected) != len(actual):
        raise ValueError(f"{len(expected)} expectations for {len(actual)} steps")
    return [
        (number, key, value, result.get(key))
        for number, (step, result) in enumerate(zip(expected, actual, strict=True))
        for key, value in step.items()
        if key not in result or value != result[key]
    ]


class SharePartitionTrace:
    """One share-partition that is driven by steps; `partition` is None before `init`."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.partition: SharePartition | None = None
        self.now_ms = 0
        self._scenario = scenario
        self._config = _configured(SharePartitionConfig(), scenario["config"])
        self._steps: dict[str, Callable[[Mapping[str, Any]], Json]] = {
            "init": self._init,
            "fetch": self._fetch,
            "ack": self._ack,
            "release_member": self._release_member,
            "advance_ms": self._advance_ms,
            "append": self._append,
            "log_start": self._log_start,
            "config": self._set_config,
        }

    def run(self, step: Mapping[str, Any]) -> Json:
        """Do one step; the result has the keys that `expect` may have."""
        if step["op"] not in self._steps:
            raise ValueError(f"unknown op {step['op']!r}")
        result = self._steps[step["op"]](step)
        partition = self._loaded()
        return {"spso": partition.start_offset, "records": _records(partition), **result}

    def _loaded(self) -> SharePartition:
        if self.partition is None:
            raise ValueError("the first step is not init")
        return self.partition

    def _replay(self, outcome: Outcome) -> None:
        self._loaded().replay(outcome)

    def _init(self, _step: Mapping[str, Any]) -> Json:
        """Load it; one that is active already stays as it is."""
        if self.partition is not None:
            return {}
        given = self._scenario["given"]
        batches = [
            StateBatch(batch["first"], batch["last"], RecordState[batch["state"]], batch["count"])
            for batch in given["batches"]
        ]
        self.partition = SharePartition.load(
            _start_offset(self._scenario), batches, given["log_start"], given["log_end"]
        )
        return {}

    def _fetch(self, step: Mapping[str, Any]) -> Json:
        outcome = self._loaded().acquire(step["member"], step["max_records"], self.now_ms, self._config)
        self._replay(outcome)
        return {"acquired": [list(acquired) for acquired in outcome.response]}

    def _ack(self, step: Mapping[str, Any]) -> Json:
        batches = [
            AcknowledgementBatch(batch["first"], batch["last"], tuple(map(_acknowledge_type, batch["types"])))
            for batch in step["batches"]
        ]
        renews = any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)
        is_renew_ack = step.get("is_renew_ack", renews)
        try:
            outcome = self._loaded().acknowledge(step["member"], batches, self.now_ms, self._config, is_renew_ack)
        except RequestError as error:
            if isinstance(error, AcknowledgementRejected):
                self._replay(error.renewals)
            return {"error": error.code.name}
        self._replay(outcome)
        return {"error": None}

    def _release_member(self, step: Mapping[str, Any]) -> Json:
        self._replay(self._loaded().release_member(step["member"], self._config))
        return {}

    def _advance_ms(self, step: Mapping[str, Any]) -> Json:
        self.now_ms += step["ms"]
        self._replay(self._loaded().expire(self.now_ms, self._config))
        return {}

    def _append(self, step: Mapping[str, Any]) -> Json:
        partition = self._loaded()
        log_end = max(partition.log_end_offset, partition.log_start_offset)
        self._replay(partition.move_log_end(log_end + step["count"]))
        return {}

    def _log_start(self, step: Mapping[str, Any]) -> Json:
        self._replay(self._loaded().move_log_start(step["offset"]))
        return {}

    def _set_config(self, step: Mapping[str, Any]) -> Json:
        self._config = _configured(self._config, step["set"])
        return {}


def _configured(config: SharePartitionConfig, values: Mapping[str, Any]) -> SharePartitionConfig:
    """`config` with the machine's own keys of `values`; the offset reset is decided before there is a machine."""
    return replace(config, **{key: value for key, value in values.items() if key != "auto_offset_reset"})


def _start_offset(scenario: Mapping[str, Any]) -> int:
    """The start offset to load; for a share-partition never used, what the reset strategy gives."""
    given = scenario["given"]
    if given["spso"] is not None:
        return int(given["spso"])
    reset = scenario["config"].get("auto_offset_reset", "latest")
    if reset == "earliest":
        return int(given["log_start"])
    if reset == "latest":
        return int(given["log_end"])
    # by_duration: the broker looks the offset up by its records' timestamps, which a scenario does not have
    return int(scenario["expect"][0]["spso"])


def _acknowledge_type(value: object) -> int:
    if isinstance(value, str):
        return AcknowledgeType[value] if value in AcknowledgeType.__members__ else _UNKNOWN_TYPE
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"acknowledge type {value!r}")


def _records(partition: SharePartition) -> list[list[Any]]:
    """What is in flight, equal neighbours fused, without what was never delivered."""
    records = RangeMap(
        (first, last, (state.name, count, member_id))
        for first, last, state, count, member_id, _ in partition.state_batches()
        if state is not RecordState.AVAILABLE or count > 0
    )
    return [[first, last, *content] for first, last, content in records]
