"""The job's clock. It estimates the brokers' time from the append times of the job's own rows.

Between appends, the estimate advances with the machine's steady clock, which is never set. The job compares its time
with the append times of rows, for example to decide when locks and sessions end or how long a request has waited. So
the job must use the brokers' time. The wall clocks of the driver and the executors are not used, because they may be
wrong by any amount and may be set at any time.

The clocks of brokers may differ, and the job does not decide which of them is right:

    latest    the time of the broker that is ahead of the others. A lock or session starts at this time.
    earliest  the time of the broker that is behind the others. A lock or session ends when this time has reached its
              deadline.

So no lock ends early according to the clock of any broker. Locks last longer by the difference between the clocks.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.kafka_clients.broker_clock import DRIFT, BrokerClock
from sharegroup.kafka_clients.steady_time import steady_ms

#: Maximum age of a partition's last append, in ms before the newest append of all partitions. Older partitions are
#: ignored, because their estimates are no longer exact.
FRESH_MS = 300_000
#: How often a job that has work appends to each partition of its request topics, in ms.
PROBE_MS = 60_000

#: A partition of one of the job's topics. Its leader sets the time of all appends to it.
TopicPartitionKey = tuple[str, int]


class BrokersTime(NamedTuple):
    """The time of the broker that is behind the others, and of the one that is ahead, in ms since the epoch."""

    earliest_ms: int
    latest_ms: int


class ClockReading(NamedTuple):
    """The time of the broker that is behind the others (`earliest_ms`), and the steady clock's time at this reading.

    All processes of a machine have the same steady clock, so each of them can compute the brokers' time from a reading.
    """

    steady_ms: int
    earliest_ms: int

    def earliest_at(self, steady_ms: int) -> int:
        """Return a time (ms since the epoch) that the clocks of all brokers had reached at `steady_ms`.

        The result is lowered by the possible drift of the clocks since the reading.
        """
        passed_ms = steady_ms - self.steady_ms
        return self.earliest_ms + passed_ms - int(DRIFT * abs(passed_ms))


class ClockUnknownError(Exception):
    """The brokers' time was requested before anything was appended."""


class JobClock:
    """Estimates the brokers' time from appends. Thread-safe: the producer's and the query's threads use it.

    `local_ms` returns the steady clock's time in ms (`steady_ms`).
    """

    def __init__(self, local_ms: Callable[[], int] = steady_ms) -> None:
        self.local_ms = local_ms
        self._clocks: dict[TopicPartitionKey, BrokerClock] = {}
        self._learned_ms: dict[TopicPartitionKey, int] = {}
        self._probed_ms: int | None = None
        self._lock = threading.Lock()

    def record_append(self, place: TopicPartitionKey, sent_ms: int, append_ms: int) -> None:
        """Update the estimate from a row sent at `sent_ms` (steady clock) and appended at `append_ms`.

        Must be called as soon as the append is confirmed. `place` is the partition to which the row was appended.
        """
        with self._lock:
            now_ms = self._learned_ms[place] = self.local_ms()
            self._clocks.setdefault(place, BrokerClock()).record_append(sent_ms, append_ms, now_ms)

    def now(self) -> BrokersTime:
        """Return the brokers' time. Raises ClockUnknownError before the first append."""
        return self._at(self.local_ms())

    def reading(self) -> ClockReading:
        """Return the time of the broker that is behind the others, with the steady clock's time.

        Raises ClockUnknownError before the first append.
        """
        local_ms = self.local_ms()
        return ClockReading(local_ms, self._at(local_ms).earliest_ms)

    def is_probe_due(self) -> bool:
        """Return whether no probe was sent yet, or the last one is at least `PROBE_MS` old.

        A probe is a row whose append updates the estimate.
        """
        return self._probed_ms is None or self.local_ms() - self._probed_ms >= PROBE_MS

    def record_probe(self) -> None:
        """Record that probes are being sent now."""
        self._probed_ms = self.local_ms()

    def _at(self, local_ms: int) -> BrokersTime:
        with self._lock:
            newest_ms = max(self._learned_ms.values(), default=0)
            fresh = [place for place, learned_ms in self._learned_ms.items() if newest_ms - learned_ms <= FRESH_MS]
            bounds = [self._clocks[place].bounds_ms(local_ms) for place in fresh]
        if not bounds:
            raise ClockUnknownError("the brokers' time is not known yet, because no row was appended")
        return BrokersTime(min(earliest for earliest, _ in bounds), max(latest for _, latest in bounds))
