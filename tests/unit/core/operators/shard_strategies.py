"""Random micro-batches for a shard, as rows: requests of members and changes of the log."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest

from .shard_driver import (
    ShardDriver,
    acknowledge,
    assign,
    config,
    fetch,
    load,
    log,
    reassign,
    release,
    reserve,
    tick,
    unacquire,
    unload,
    unreserve,
)

LIMITS = {"record_lock_duration_ms": 100, "partition_max_record_locks": 12}
MEMBERS = st.sampled_from(["m1", "m2", "m3"])
GATEWAYS = st.sampled_from(["gateway-1", "gateway-2"])
TYPES = st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4])
OFFSETS = st.tuples(st.integers(0, 25), st.integers(0, 6)).map(lambda r: (r[0], r[0] + r[1]))


class Step(NamedTuple):
    """One row: its kind and its fields."""

    kind: str
    arguments: tuple[Any, ...]


class Batch(NamedTuple):
    """Rows, and the time since the last batch."""

    after_ms: int
    steps: list[Step]


def _step(kind: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(kind), st.tuples(*arguments))


def member_steps(waits: st.SearchStrategy[int], epochs: st.SearchStrategy[int]) -> st.SearchStrategy[Step]:
    """Draw requests of members and new records; `waits` is how long fetches wait (ms)."""
    return st.one_of(
        _step("fetch", MEMBERS, st.integers(1, 8), waits, epochs),
        _step("fetch", MEMBERS, st.integers(1, 8), waits, epochs),
        _step("acknowledge", MEMBERS, OFFSETS, TYPES, epochs),
        _step("acknowledge", MEMBERS, OFFSETS, TYPES, epochs),
        _step("unacquire", MEMBERS, OFFSETS),
        _step("release", MEMBERS, epochs),
        _step("append", st.integers(1, 8)),
        _step("reserve", GATEWAYS, st.integers(1, 6), st.integers(1, 2)),
        _step("assign", GATEWAYS, OFFSETS, MEMBERS, st.integers(1, 2)),
        _step("reassign", OFFSETS, MEMBERS, MEMBERS, st.integers(1, 2)),
        _step("unreserve", GATEWAYS, OFFSETS, st.integers(1, 2)),
        _step("tick", st.sampled_from([0, 0, 30, 120])),
    )


STANDING = member_steps(st.sampled_from([0, 50, 500]), st.integers(-1, 3))
AT_ONCE = member_steps(st.just(0), st.just(-1))
LOG_AND_LOADS = st.one_of(
    _step("truncate", st.integers(0, 8)),
    _step("reset", st.integers(0, 20)),
    _step("unload"),
    _step("load", st.integers(0, 20)),
    _step("other"),
)


def batches(steps: st.SearchStrategy[Step], most: int = 6) -> st.SearchStrategy[list[Batch]]:
    """Draw up to `most` micro-batches of up to five rows each."""
    after = st.sampled_from([1, 10, 60, 150])
    return st.lists(st.builds(Batch, after, st.lists(steps, min_size=1, max_size=5)), min_size=1, max_size=most)


class Script:
    """Converts batches to rows, which can be processed by several shards."""

    def __init__(self) -> None:
        self._lines = ShardDriver()  # numbers the requests
        self._requests = 0
        self._log = [0, 0]
        self._epoch = 1
        self.now = 0

    def first(self, **values: object) -> list[str]:
        """Return the batch at time 0 that loads two empty share-partitions, one of which gets no requests."""
        return [config(**LIMITS, **values), load(), load(partition=2)]

    def rows(self, batch: Batch) -> list[str]:
        """Return the rows of the next batch; its timestamp is then `now`."""
        self.now += batch.after_ms
        return [self._row(step) for step in batch.steps]

    def _row(self, step: Step) -> str:
        if step.kind in ("fetch", "acknowledge", "unacquire", "release"):
            return self._request(step)
        if step.kind in ("reserve", "assign", "unreserve", "reassign"):
            return self._gateway_request(step)
        if step.kind == "tick":
            return tick(self.now - step.arguments[0])
        if step.kind == "append":
            self._log[1] += step.arguments[0]
        elif step.kind == "truncate":
            self._log[0] = min(self._log[0] + step.arguments[0], self._log[1])
        elif step.kind == "reset":
            self._epoch += 1
            return load(max(step.arguments[0], self._log[0]), self._ends, state_epoch=self._epoch)
        elif step.kind == "load":
            return load(max(step.arguments[0], self._log[0]), self._ends, state_epoch=self._epoch)
        elif step.kind == "unload":
            return unload(0)
        elif step.kind == "other":
            return load(0, (0, 3), partition=1)
        return log(self._log[1], self._log[0])

    def _gateway_request(self, step: Step) -> str:
        request: SharePartitionRequest
        if step.kind == "reassign":
            (first, last), member, to, count = step.arguments
            request = reassign(first, last, count, member, to, lock_ms=100)
            return self._lines.line(request, self.now)
        gateway, of_kind, *_, epoch = step.arguments
        if step.kind == "reserve":
            self._requests += 1
            request = reserve(f"r{self._requests}", of_kind, gateway, epoch)
        elif step.kind == "assign":
            request = assign(*of_kind, step.arguments[2], gateway, epoch, lock_ms=100)
        else:
            request = unreserve(of_kind, gateway=gateway, epoch=epoch)
        return self._lines.line(request, self.now)

    @property
    def _ends(self) -> tuple[int, int]:
        return self._log[0], self._log[1]

    def _request(self, step: Step) -> str:
        self._requests += 1
        name, member = f"r{self._requests}", step.arguments[0]
        if step.kind == "fetch":
            _, max_records, wait_ms, epoch = step.arguments
            request = fetch(name, member, max_records, wait_ms, epoch=epoch)
        elif step.kind == "acknowledge":
            _, (first, last), kind, epoch = step.arguments
            request = acknowledge(name, (first, last, kind), member=member, epoch=epoch)
        elif step.kind == "unacquire":
            request = unacquire(name, *step.arguments[1], member=member)
        else:
            request = release(name, member, step.arguments[1])
        return self._lines.line(request, self.now)
