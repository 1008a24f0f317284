"""The records that a handler loop holds, and the next action for each of them.

This module has no clock, starts no threads and sends no requests.

A record is queued first, and then processed in a handler call. After the call it is acknowledged, or it waits for
another call (`Retry`) or for its release (`Release` with a delay). In all these phases, the lock is renewed when half
of its remaining time has passed. Renewals end `max_processing_ms` after the first call. If the lock expires, the record
is lost: its call is cancelled, and the result of the call is ignored.

While a renewal is in progress, the record cannot be acknowledged. Its acknowledgement is sent after the renewal.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from sharegroup.client.handlers.decisions import HandlerOptions, Reject, Release
from sharegroup.client.records import Possession, Record
from sharegroup.types import AcknowledgeType


class Room(NamedTuple):
    """The number of records and bytes that the loop may still fetch."""

    records: int
    bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether there is no room left, in records or in bytes. The loop then stops fetching records."""
        return self.records <= 0 or self.bytes <= 0


class Acknowledgement(NamedTuple):
    """An acknowledgement to send. If `kind` is None, the record was not passed to a handler and is released."""

    record: Record[Any]
    kind: AcknowledgeType | None


class _Phase(Enum):
    QUEUED = 1
    RUNNING = 2
    RETRYING = 3
    RELEASING = 4
    DONE = 5


_WAITING = (_Phase.RETRYING, _Phase.RELEASING)


@dataclass(slots=True, eq=False)
class _Held:
    record: Record[Any]
    queued_ms: int
    renew_ms: int | None
    phase: _Phase = _Phase.QUEUED
    attempts: int = 0
    first_call_ms: int | None = None
    due_ms: int = 0
    kind: AcknowledgeType | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One call of the handler, with its records. Either a worker begins the call, or the loop withdraws it."""

    held: tuple[_Held, ...]
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Claim the call, in order to begin it or to withdraw it. Thread-safe.

        Only the first claim returns True. If the result is False, the caller must neither begin nor withdraw the call.
        """
        return self._claim.acquire(blocking=False)

    @property
    def records(self) -> list[Record[Any]]:
        """The records in the order of their delivery."""
        return [item.record for item in self.held]


class WorkQueue:
    """The records of one handler loop. Times are milliseconds of any clock that never goes back.

    The loop calls `due_renewals` and `update` often, so they must be fast. They iterate over all records only if a lock
    must be renewed or has expired.

    Up to `ready_calls` further calls are prepared while others run. A worker that has finished a call can begin a
    prepared one without waiting for the loop.
    """

    def __init__(self, options: HandlerOptions, ready_calls: int = 0) -> None:
        self._options = options
        self._max_started = options.concurrency + ready_calls
        self._queue: deque[_Held] = deque()
        self._held: dict[int, _Held] = {}
        self._waiting: list[_Held] = []
        self._decided: list[_Held] = []
        self._renewing: dict[_Held, None] = {}
        #: The earliest time at which a lock must be renewed or expires; None if there is no lock.
        self._lock_ms: int | None = None
        self._bytes = 0
        self._started: dict[Call, None] = {}
        self._is_draining = False

    def __len__(self) -> int:
        return len(self._held)

    @property
    def running(self) -> int:
        """The number of calls that have been started or prepared and have not ended."""
        return len(self._started)

    @property
    def is_renewing(self) -> bool:
        """Whether a renewal is in progress."""
        return bool(self._renewing)

    @property
    def room(self) -> Room:
        """The number of records and bytes that may still be added."""
        if self._is_draining:
            return Room(0, 0)
        return Room(self._options.max_records - len(self._held), self._options.max_bytes - self._bytes)

    def add(self, records: Iterable[Record[Any]], now_ms: int) -> None:
        """Queue delivered records for handler calls. After `drain`, they are released instead."""
        for record in records:
            record.cancelled = threading.Event()
            item = _Held(record, now_ms, _renewal_ms(record, now_ms))
            self._held[id(record)] = item
            self._bytes += record.size
            self._queue.append(item)
            self._note_lock(item)
            if self._is_draining:
                self._decide(item, AcknowledgeType.RELEASE)

    def start_calls(self, now_ms: int) -> list[Call]:
        """Return the calls that the caller must start now. They are included in `running` until `finish_call`."""
        for item in self._waiting:
            if item.phase is _Phase.RETRYING and item.due_ms <= now_ms:
                item.phase, item.queued_ms = _Phase.QUEUED, now_ms - self._options.max_wait_ms
                self._queue.appendleft(item)
        calls = []
        while len(self._started) < self._max_started and self._is_call_due(now_ms):
            calls.append(self._start_call(now_ms))
        return calls

    def finish_call(self, call: Call, errors: Mapping[int, BaseException], now_ms: int) -> None:
        """Record that a call has ended, and decide whether its records are acknowledged, retried or released later.

        `errors` is {index of a record in the call: exception} for the records that were not processed.
        """
        del self._started[call]
        for index, item in enumerate(call.held):
            if item.phase is _Phase.RUNNING:
                self._on_result(item, errors.get(index), now_ms)

    def due_renewals(self, now_ms: int) -> list[Record[Any]]:
        """Return the records whose locks must be renewed now, and mark their renewals as in progress."""
        if self._lock_ms is None or now_ms < self._lock_ms:
            return []
        due = [item for item in self._held.values() if self._needs_renewal(item, now_ms)]
        self._renewing |= dict.fromkeys(due)
        self._lock_ms = None
        for item in self._held.values():
            self._note_lock(item)
        return [item.record for item in due]

    def update(self, possession: Callable[[Record[Any]], Possession], now_ms: int) -> list[Record[Any]]:
        """Apply the results of renewals, and remove records that the consumer no longer holds.

        `possession` returns whether the consumer holds a record, is renewing it, or has lost it. The `cancelled` event
        of each removed record is set.
        """
        may_expire = self._lock_ms is not None and now_ms >= self._lock_ms
        expired = [item for item in self._held.values() if _has_expired(item, now_ms)] if may_expire else []
        removed = []
        for item in dict.fromkeys([*self._renewing, *expired]):
            state = possession(item.record)
            if state is Possession.LOST or (state is Possession.HELD and _has_expired(item, now_ms)):
                item.record.cancelled.set()
                self._remove(item)
                removed.append(item.record)
            elif state is Possession.HELD:
                del self._renewing[item]
                item.renew_ms = _renewal_ms(item.record, now_ms)
                self._note_lock(item)
        return removed

    def pop_acknowledgements(self, now_ms: int) -> list[Acknowledgement]:
        """Return the acknowledgements to send now, and remove their records."""
        for item in self._waiting:
            if item.phase is _Phase.RELEASING and item.due_ms <= now_ms:
                self._decide(item, AcknowledgeType.RELEASE)
        self._waiting = [item for item in self._waiting if item.phase in _WAITING]
        found, later = [], []
        for item in self._decided:
            if item in self._renewing:
                later.append(item)
            elif self._remove(item) and item.kind is not None:
                found.append(Acknowledgement(item.record, item.kind if item.attempts else None))
        self._decided = later
        return found

    def next_ms(self) -> int | None:
        """Return the time of the next call, release, renewal or lock end; None if there is none."""
        return min(self._due_times(), default=None)

    def drain(self) -> None:
        """Release all records that are not in a running call. From now on, start no further calls.

        Prepared calls that no worker has begun are withdrawn. Retries and delayed releases are not waited for.
        """
        self._is_draining = True
        for call in self._started:
            if call.claim():
                for item in call.held:
                    item.attempts -= 1
                    self._decide(item, AcknowledgeType.RELEASE)
        for item in self._held.values():
            if item.phase in (_Phase.QUEUED, _Phase.RETRYING, _Phase.RELEASING):
                self._decide(item, AcknowledgeType.RELEASE)
        self._queue.clear()

    def abandon(self) -> None:
        """Cancel all calls in progress and release their records. The results of these calls are ignored."""
        self.drain()
        for item in self._held.values():
            if item.phase is _Phase.RUNNING:
                item.record.cancelled.set()
                self._decide(item, AcknowledgeType.RELEASE)

    def _is_call_due(self, now_ms: int) -> bool:
        while self._queue and self._queue[0].phase is not _Phase.QUEUED:
            self._queue.popleft()
        if not self._queue:
            return False
        is_full = len(self._queue) >= self._options.batch_records
        return is_full or now_ms >= self._queue[0].queued_ms + self._options.max_wait_ms

    def _start_call(self, now_ms: int) -> Call:
        items: list[_Held] = []
        while self._queue and len(items) < self._options.batch_records:
            item = self._queue.popleft()
            if item.phase is _Phase.QUEUED:
                item.phase, item.attempts = _Phase.RUNNING, item.attempts + 1
                item.first_call_ms = now_ms if item.first_call_ms is None else item.first_call_ms
                items.append(item)
        call = Call(tuple(items))
        self._started[call] = None
        return call

    def _on_result(self, item: _Held, error: BaseException | None, now_ms: int) -> None:
        if error is None:
            self._decide(item, AcknowledgeType.ACCEPT)
        elif isinstance(error, Reject):
            self._decide(item, AcknowledgeType.REJECT)
        elif isinstance(error, Release):
            self._wait(item, _Phase.RELEASING, error.delay_ms, now_ms)
        else:
            delay_ms = self._options.retry.delay_ms(item.attempts)
            phase = _Phase.RELEASING if delay_ms is None else _Phase.RETRYING
            self._wait(item, phase, delay_ms or 0, now_ms)

    def _wait(self, item: _Held, phase: _Phase, delay_ms: int, now_ms: int) -> None:
        if self._is_draining:
            self._decide(item, AcknowledgeType.RELEASE)
        else:
            item.phase, item.due_ms = phase, now_ms + delay_ms
            self._waiting.append(item)

    def _decide(self, item: _Held, kind: AcknowledgeType) -> None:
        item.phase, item.kind = _Phase.DONE, kind
        self._decided.append(item)

    def _remove(self, item: _Held) -> bool:
        """Remove a record. Return False if it had already been removed."""
        if self._held.pop(id(item.record), None) is None:
            return False
        self._renewing.pop(item, None)
        self._bytes -= item.record.size
        item.phase = _Phase.DONE
        return True

    def _needs_renewal(self, item: _Held, now_ms: int) -> bool:
        if item in self._renewing or item.kind is not None or item.renew_ms is None or now_ms < item.renew_ms:
            return False
        return self._may_renew(item, now_ms)

    def _may_renew(self, item: _Held, at_ms: int) -> bool:
        return item.first_call_ms is None or at_ms < item.first_call_ms + self._options.max_processing_ms

    def _note_lock(self, item: _Held) -> None:
        """Lower `_lock_ms`, the time of the next action for any lock, if this record needs an action earlier.

        The action is the renewal of its lock, or the end of its lock if the lock can no longer be renewed.
        """
        until_ms = item.record.delivery.lock_until_ms
        if item.renew_ms is None or until_ms is None or item in self._renewing or item.kind is not None:
            return
        due_ms = item.renew_ms if self._may_renew(item, item.renew_ms) else until_ms
        self._lock_ms = due_ms if self._lock_ms is None else min(self._lock_ms, due_ms)

    def _due_times(self) -> Iterator[int]:
        for item in self._waiting:
            if item.phase in _WAITING:
                yield item.due_ms
        if self._lock_ms is not None:
            yield self._lock_ms
        if self._queue and len(self._started) < self._max_started:
            yield self._queue[0].queued_ms + self._options.max_wait_ms


def _has_expired(item: _Held, now_ms: int) -> bool:
    until_ms = item.record.delivery.lock_until_ms
    return until_ms is not None and now_ms >= until_ms


def _renewal_ms(record: Record[Any], now_ms: int) -> int | None:
    """Return the time at which half of the remaining lock time has passed; None if the end of the lock is unknown."""
    until_ms = record.delivery.lock_until_ms
    return None if until_ms is None else now_ms + max(0, until_ms - now_ms) // 2


def errors_by_index(result: Any, records: Collection[Record[Any]]) -> dict[int, BaseException]:
    """Convert the result of a batch handler to {index of the record: exception}.

    The result must be None or {record: exception}. Raises TypeError for anything else.
    """
    if result is None:
        return {}
    places = {id(record): index for index, record in enumerate(records)}
    if not isinstance(result, Mapping) or not all(id(record) in places for record in result):
        raise TypeError("a batch handler must return None or {record: exception}, only with records of its batch")
    return {places[id(record)]: error for record, error in result.items()}
