"""Keeps the job's queries running: a query that failed for a passing reason is started again.

While Kafka is away, or the store of the tables, a query is tried again for as long as it takes: to keep running is
what the job is for. After any other failure it is tried again `MAX_RESTARTS` times without a batch in between. What is
for people to decide - another leader, a stale checkpoint or one of another version - ends the job at once, and so does
a first start that fails for anything but those two.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from pyspark.errors import StreamingQueryException

from sharegroup.errors import FencedLeaderError, ShareGroupError, StopRequested
from sharegroup.job.lead.stale_checkpoint import StaleCheckpointError
from sharegroup.storage.store_outage import is_store_outage, one_line

logger = logging.getLogger(__name__)

#: How often in a row a query is started again after failures that are no outage.
MAX_RESTARTS = 6
#: A query is started again after 1, 2, 4, ... seconds, and no longer than this.
MAX_DELAY_S = 30.0
#: How much of what a failure says is logged: some say a whole trace of Java's.
_LOGGED = 500
#: What Kafka's Java clients, which Spark reads with, throw while brokers are away.
_JAVA_OUTAGE = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|KafkaStorage)Exception"
)


#: How a source or an operator of ours ends what it says of a state in another format (`SourceOffset`, `ShardState`).
_OTHER_VERSION = re.compile(r"Error: ([^\n]*remove [^\n]* comes back from the tables)")


class Supervised(Protocol):
    """A query that was started."""

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""

    @property
    def ended_by(self) -> BaseException | None:
        """The error that it ended with, if there was one."""

    @property
    def batches(self) -> int:
        """How many batches it has run."""

    @property
    def has_answered(self) -> bool:
        """Whether a batch that has read a request is through."""


class Supervisor:
    """`starts` are the queries by name: each starts one, or raises. Nothing is done outside of `watch`."""

    def __init__(self, starts: Mapping[str, Callable[[], Supervised]], clock: Callable[[], float] = time.monotonic):
        self._starts, self._clock = starts, clock
        self._running: dict[str, Supervised] = {}
        self._due = dict.fromkeys(starts, clock())
        self._failures = {name: _Failures(name) for name in starts}

    def watch(self) -> bool:
        """Start what is due; return whether all queries run and answer requests. Raises what ends the job."""
        for name in self._starts:
            if name not in self._due:
                self._look_after(name, self._running[name])
            elif self._clock() >= self._due[name]:
                self._start(name)
        return not self._due and all(query.has_answered for query in self._running.values())

    def _start(self, name: str) -> None:
        try:
            self._running[name] = self._starts[name]()
        except (FencedLeaderError, StaleCheckpointError):
            raise
        except Exception as error:
            if name not in self._running and not is_outage(error):
                raise
            self._failed(name, error)
        else:
            del self._due[name]

    def _look_after(self, name: str, query: Supervised) -> None:
        if query.is_active or isinstance(query.ended_by, StopRequested):
            return
        if isinstance(query.ended_by, (FencedLeaderError, StaleCheckpointError)):
            raise query.ended_by
        if told := of_another_version(query.ended_by):
            raise StaleCheckpointError(told) from query.ended_by
        if query.batches:
            self._failures[name] = _Failures(name)
        self._failed(name, query.ended_by)

    def _failed(self, name: str, failure: BaseException | None) -> None:
        delay_s = self._failures[name].add(failure)
        logger.error("query %s failed, will start again in %d s: %s", name, delay_s, first_line(failure))
        self._due[name] = self._clock() + delay_s


class _Failures:
    """Of one query, without a batch in between."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._all, self._no_outages = 0, 0

    def add(self, failure: BaseException | None) -> float:
        """Seconds until the next start. Raises ShareGroupError after too many."""
        self._all += 1
        self._no_outages += not is_outage(failure)
        if self._no_outages > MAX_RESTARTS:
            raise ShareGroupError(f"query {self._name} failed {self._no_outages} times in a row") from failure
        return float(min(2 ** min(self._all - 1, 10), MAX_DELAY_S))


def is_outage(failure: BaseException | None) -> bool:
    """Whether Kafka is away, by any of its clients, or the store, however deep in the causes.

    A topic that is gone is not away: nobody will bring it back by waiting.
    """
    for error in _with_causes(failure):
        if isinstance(error, KafkaError) and error.retriable and not isinstance(error, UnknownTopicOrPartitionError):
            return True
        if isinstance(error, StreamingQueryException) and _JAVA_OUTAGE.search(str(error)):
            return True
        if is_store_outage(error):
            return True
    return False


def of_another_version(failure: BaseException | None) -> str | None:
    """What a worker said of a checkpoint that it cannot read, which no further start can either; None of others."""
    found = _OTHER_VERSION.search(str(failure)) if isinstance(failure, StreamingQueryException) else None
    return found[1] if found else None


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def first_line(failure: BaseException | None) -> str:
    """What a log line says of a failure."""
    if isinstance(failure, StreamingQueryException):
        return str(failure).partition("\n")[0]
    return f"{type(failure).__name__}: {one_line(failure)[:_LOGGED]}"
