"""Supervision of the job's queries: a query that fails for a temporary reason is started again.

While Kafka or the store of the tables is unavailable, a query is restarted without limit. After other failures it is
restarted up to `MAX_RESTARTS` times, and the next such failure ends the job. A successful batch sets the number of
failures back to zero. Problems that a person must solve end the job immediately: another leader, a stale checkpoint, or
a checkpoint of another version. A first start that fails for a reason other than an outage ends the job too.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from pyspark.errors import StreamingQueryException

from sharegroup.errors import FencedLeaderError, ShareGroupError, StopRequested
from sharegroup.job.lead.stale_checkpoint import StaleCheckpointError
from sharegroup.log_fields import LogFields
from sharegroup.storage.store_outage import is_store_outage, one_line

logger = logging.getLogger(__name__)

#: The number of consecutive restarts after failures that are not outages.
MAX_RESTARTS = 6
#: The maximum delay before a restart, in seconds. The delays are 1, 2, 4, ... seconds.
MAX_DELAY_S = 30.0
#: The maximum length of a failure's text in the log, because some texts contain a whole Java stack trace.
_LOGGED = 500
#: The exceptions that Kafka's Java clients, which Spark uses, raise while brokers are unavailable.
_JAVA_OUTAGE = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|KafkaStorage)Exception"
)


#: The error text of this project's sources and operators for a state in another format (`SourceOffset`, `ShardState`).
_OTHER_VERSION = re.compile(r"Error: ([^\n]*remove [^\n]* from the tables)")


class Supervised(Protocol):
    """A started query that the supervisor checks."""

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended."""

    @property
    def ended_by(self) -> BaseException | None:
        """The error that ended the query, if any."""

    @property
    def batches(self) -> int:
        """The number of batches that have run."""

    @property
    def has_responded(self) -> bool:
        """Whether a batch with at least one request has completed."""


class Supervisor:
    """Starts queries, and restarts those that fail. It acts only when `watch` is called.

    `starts` has, by query name, a function that starts the query and returns it, or raises an error if the query cannot
    start.
    """

    def __init__(self, starts: Mapping[str, Callable[[], Supervised]], clock: Callable[[], float] = time.monotonic):
        self._starts, self._clock = starts, clock
        self._running: dict[str, Supervised] = {}
        self._due = dict.fromkeys(starts, clock())
        self._failures = {name: _Failures(name) for name in starts}

    def watch(self) -> bool:
        """Check the running queries, and start those whose start or restart is due.

        Return whether all queries run and have processed a request. Raises an error if the job must end.
        """
        for name in self._starts:
            if name not in self._due:
                self._check(name, self._running[name])
            elif self._clock() >= self._due[name]:
                self._start(name)
        return not self._due and all(query.has_responded for query in self._running.values())

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

    def _check(self, name: str, query: Supervised) -> None:
        if query.is_active or isinstance(query.ended_by, StopRequested):
            return
        if isinstance(query.ended_by, (FencedLeaderError, StaleCheckpointError)):
            raise query.ended_by
        if problem := find_version_problem(query.ended_by):
            raise StaleCheckpointError(problem) from query.ended_by
        if query.batches:
            self._failures[name] = _Failures(name)
        self._failed(name, query.ended_by)

    def _failed(self, name: str, failure: BaseException | None) -> None:
        delay_s = self._failures[name].add(failure)
        logger.error(
            "query %(query)s failed; it restarts in %(retry_s)d s: %(error)s",
            LogFields(query=name, retry_s=delay_s, error=first_line(failure)),
        )
        self._due[name] = self._clock() + delay_s


class _Failures:
    """Counts the failures of one query since its last successful batch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._all, self._other_failures = 0, 0

    def add(self, failure: BaseException | None) -> float:
        """Count a failure and return the seconds until the next start.

        Raises ShareGroupError if more than `MAX_RESTARTS` of the counted failures are not outages.
        """
        self._all += 1
        self._other_failures += not is_outage(failure)
        if self._other_failures > MAX_RESTARTS:
            raise ShareGroupError(f"query {self._name} failed {self._other_failures} times in a row") from failure
        return float(min(2 ** min(self._all - 1, 10), MAX_DELAY_S))


def is_outage(failure: BaseException | None) -> bool:
    """Return whether Kafka or the store is unavailable, according to the failure or any of its causes.

    A deleted topic is not an outage, because waiting does not restore it.
    """
    for error in _with_causes(failure):
        if isinstance(error, KafkaError) and error.retriable and not isinstance(error, UnknownTopicOrPartitionError):
            return True
        if isinstance(error, StreamingQueryException) and _JAVA_OUTAGE.search(str(error)):
            return True
        if is_store_outage(error):
            return True
    return False


def find_version_problem(failure: BaseException | None) -> str | None:
    """Return the error text of a Python worker that has rejected a checkpoint of another version; otherwise None.

    A restart of the query does not solve this problem.
    """
    found = _OTHER_VERSION.search(str(failure)) if isinstance(failure, StreamingQueryException) else None
    return found[1] if found else None


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def first_line(failure: BaseException | None) -> str:
    """Return the text of a failure in one line, and shortened, for the log."""
    if isinstance(failure, StreamingQueryException):
        return str(failure).partition("\n")[0]
    return f"{type(failure).__name__}: {one_line(failure)[:_LOGGED]}"
