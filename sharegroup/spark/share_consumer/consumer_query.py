"""`ShareConsumerQuery`: a running `ShareConsumer`, and its orderly end."""

from __future__ import annotations

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
    """What `ShareConsumer.start` returns. A thread watches the Spark query and ends everything in order: offer no
    further batch, let the running one finish and commit, stop the query, give unused ranges back, leave the group."""

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

    @staticmethod
    def stop_flag() -> threading.Event:
        """What is set to end a query."""
        return threading.Event()

    @property
    def id(self) -> str:
        """The Spark query's id: a UUID kept in the checkpoint."""
        return str(self._query.id)

    @property
    def member_id(self) -> str:
        """The member's id in the group."""
        return self._member.member_id

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """The topic-partitions that the group coordinator has assigned to the member; empty until it has joined."""
        return self._member.assignment

    @property
    def is_active(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def handler_errors(self) -> int:
        """How many batches were released because of the handler, since the start."""
        return self._runner.handler_errors

    @property
    def last_handler_error(self) -> BaseException | None:
        """The last exception of the handler, None if it never raised."""
        return self._runner.last_handler_error

    @property
    def redelivered(self) -> int:
        """How many ranges were acknowledged too late: they were or will be delivered again."""
        return self._member.redelivered

    def metrics(self) -> dict[str, dict[str, float]]:
        """What the member has done, by the names of Kafka's share consumer (docs/metrics.md): {group: {name: value}}.

        What each batch took is in the query's progress, too, as an observed metric of Spark's.
        """
        return self._member.metrics()

    def subscribe(self, topics: Sequence[str] | None = None, *, pattern: str | None = None) -> None:
        """Read these topics from now on in place of those before, or all that match a pattern, as `ShareConsumer` does.

        What the member holds of the others is handled; their records go to other members after that. Raises ValueError.
        """
        self._member.subscribe(Subscription.of(topics, pattern))

    def stop(self, leave_group: bool = False) -> None:
        """End between batches: a batch that runs is finished first. Returns when the member has left the group.

        A static member stays in the group, for `share.static.session.timeout.ms`, and its next process goes on as it;
        with `leave_group` it leaves for good (KIP-1092).
        """
        self._leave_group = leave_group
        self._stop.set()
        self._ended.wait()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end (at most `timeout` seconds); whether it has come.

        Raises what ended the query: the handler's last exception after `max_failures` in a row, RequestError when the
        group coordinator refuses the member for good, Spark's own StreamingQueryException otherwise.
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
        except Exception as error:  # noqa: BLE001 - told by `await_termination`
            self._error = self._error or error
        finally:
            self._ended.set()

    def _end(self) -> None:
        self._member.stop_offering()
        try:
            if self._query.isActive:
                # Nothing is on offer, so this waits for the batch that runs, if one does, and its commit.
                with contextlib.suppress(PySparkException):  # the batch failed: `_cause` says why
                    self._query.processAllAvailable()
                self._query.stop()
            self._error = self._cause()
        except (Py4JError, ConnectionError) as error:  # the JVM is gone
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
