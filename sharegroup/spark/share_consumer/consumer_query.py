"""`ShareConsumerQuery`: a running `ShareConsumer` and its orderly end."""

import contextlib
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from sharegroup.member.member import Member
from sharegroup.member.ranges import AssignedPartition
from sharegroup.member.subscription import Subscription
from sharegroup.spark.share_consumer.batch_runner import BatchRunner

logger = logging.getLogger(__name__)

_WATCH_S = 0.5


class ShareConsumerQuery:
    """The running query that `ShareConsumer.start` returns.

    A thread waits until the Spark query ends or `stop` is called. It then ends the query in this order: offer no
    further batch, let the running batch finish and commit, stop the query, return unused ranges, leave the group.
    """

    def __init__(
        self,
        member: Member,
        runner: BatchRunner,
        stop: threading.Event,
        offers: tempfile.TemporaryDirectory[str],
        start: Callable[[], StreamingQuery],
    ) -> None:
        self._member, self._runner, self._stop, self._offers = member, runner, stop, offers
        self._leave_group = False
        self._ended = threading.Event()
        started: threading.Event = threading.Event()
        runner.query_id = lambda: self._query_id(started)
        member.start()
        try:
            self._query = start()
        except BaseException:
            member.close()
            offers.cleanup()
            raise
        started.set()
        self._error: BaseException | None = None
        threading.Thread(target=self._watch, name="share-consumer-query", daemon=True).start()

    @property
    def id(self) -> str:
        """The Spark query's id, a UUID stored in the checkpoint."""
        return str(self._query.id)

    @property
    def group_id(self) -> str:
        """The id of the share group."""
        return self._member.group_id

    @property
    def member_id(self) -> str:
        """The member id in the group."""
        return self._member.member_id

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """The topic-partitions assigned by the group coordinator; empty until the member has joined."""
        return self._member.assignment

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended."""
        return not self._ended.is_set()

    @property
    def handler_errors(self) -> int:
        """The number of batches that were released since the start because the handler failed."""
        return self._runner.handler_errors

    @property
    def last_handler_error(self) -> BaseException | None:
        """The last exception of the handler; None if it never raised."""
        return self._runner.last_handler_error

    @property
    def redelivered(self) -> int:
        """The number of ranges that were acknowledged too late; their records are delivered again."""
        return self._member.redelivered

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the member's metrics as {metric group: {metric name: value}}, with Kafka's names (docs/metrics.md).

        The consumed records of each batch are also in the query's progress, as an observed metric of Spark's.
        """
        return self._member.metrics()

    def subscribe(self, topics: Sequence[str] | None = None, *, pattern: str | None = None) -> None:
        """Replace the subscription by these topics, or by all topics that match a pattern, as in `ShareConsumer`.

        Records that the member already holds are still processed, even if their topics are no longer subscribed. Raises
        ValueError for invalid topics or an invalid pattern.
        """
        self._member.subscribe(Subscription.from_arguments(topics, pattern))

    def stop(self, leave_group: bool = False) -> None:
        """Finish the running batch, end the query and leave the group. Return when this is done.

        A static member leaves the group only if `leave_group` is True (KIP-1092). Otherwise it stays in the group for
        `share.static.session.timeout.ms`, and its next process continues as the same member.
        """
        self._leave_group = leave_group
        self._stop.set()
        self._ended.wait()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the query, at most `timeout` seconds, and return whether the query has ended.

        Raises the error that ended the query. If the member failed, this is the member's error: RequestError if the
        group coordinator has rejected the member permanently. After `max_failures` failures of the handler in a row, it
        is the handler's last exception. Otherwise it is Spark's StreamingQueryException.
        """
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _query_id(self, started: threading.Event) -> str:
        started.wait()  # the first batch may run before `start` has returned
        return self.id

    def _watch(self) -> None:
        try:
            while not self._stop.wait(_WATCH_S):
                if not self._query.isActive:
                    break
            self._end()
        except Exception as error:  # noqa: BLE001 - `await_termination` raises it
            self._error = self._error or error
        finally:
            self._ended.set()

    def _end(self) -> None:
        self._member.stop_offering()
        try:
            if self._query.isActive:
                # No batch is on offer any longer, so this waits only for the running batch, if any, and its commit.
                with contextlib.suppress(PySparkException):  # the batch failed: `_cause` returns the reason
                    self._query.processAllAvailable()
                self._query.stop()
            self._error = self._cause()
        except (Py4JError, ConnectionError) as error:  # the JVM has exited
            self._error = error
        finally:
            self._member.close(self._leave_group)
            self._offers.cleanup()

    def _cause(self) -> BaseException | None:
        if self._member.failure is not None:
            return self._member.failure
        if self._runner.has_given_up:
            return self._runner.last_handler_error
        return self._query.exception()
