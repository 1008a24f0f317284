"""The share consumer for synchronous code (KIP-932). It runs an AsyncShareConsumer on a thread with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from sharegroup.client.async_consumer import CLOSE_TIMEOUT_S, AsyncShareConsumer
from sharegroup.client.caller_thread import CallerThread
from sharegroup.client.commit_callback import CommitCallback
from sharegroup.client.connector import Connector
from sharegroup.client.errors import ConcurrentUseError, IllegalStateError
from sharegroup.client.handlers.registered import HandlesRecords
from sharegroup.client.handlers.runner import HandlerRunner
from sharegroup.client.handlers.stop_signals import signals_call
from sharegroup.client.records import CommitResults, Record, UndecodableRecord
from sharegroup.kafka_clients.connections.loop_thread import LoopThread
from sharegroup.kafka_clients.consumer_metrics import Metrics
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from typing import Self

_Result = TypeVar("_Result")


class ShareConsumer(HandlesRecords):
    """A share consumer for synchronous code. Each consumer is one member of a share group.

    The arguments are the same as those of AsyncShareConsumer. If two threads use the consumer at the same time,
    ConcurrentUseError is raised. Only `wakeup` and `stop` may be called from any thread at any time.

    Deserializers and the commit callback run on the caller's thread, so they do not delay heartbeats and renewals. They
    must not use the consumer.
    """

    def __init__(
        self,
        bootstrap_servers: str | Collection[str],
        *,
        group_id: str,
        topics: Collection[str] = (),
        connector: Connector | None = None,
        **settings: Any,
    ) -> None:
        self._consumer = AsyncShareConsumer(
            bootstrap_servers, group_id=group_id, topics=topics, connector=connector, **settings
        )
        self._consumer.callback_caller = self._caller = CallerThread()
        if self._consumer.settings.has_deserializers:  # without them, decoding on the loop saves changes of threads
            self._consumer.decoding_caller = self._caller
        self._thread = LoopThread("sharegroup-client")
        self._user = threading.Lock()
        self._is_closed = False

    # -- subscription --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscription. The next poll joins the group if the consumer is not a member yet.

        Raises ValueError if `topics` is empty or contains an empty name.
        """
        with self._using():
            self._consumer.subscribe(topics)

    def subscription(self) -> set[str]:
        """Return the topics of the subscription."""
        with self._using():
            return self._consumer.subscription()

    def unsubscribe(self) -> None:
        """Clear the subscription and leave the group. Records are acknowledged or released as by `close`."""
        self._run(self._consumer.unsubscribe)

    # -- records -------------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float = 1.0) -> list[Record[Any]]:
        """Wait for records and return them. Returns an empty list if no record arrives within the timeout.

        Acknowledgements and errors are those of AsyncShareConsumer.poll.
        """
        return self._run(self._consumer.poll, timeout_s)

    def __iter__(self) -> Iterator[Record[Any]]:
        """Yield records without end, as AsyncShareConsumer.__aiter__ does.

        All records of one poll are yielded before the next poll.
        """
        while True:
            with self._using():
                record = self._consumer.deliver_one()
            if record is None:
                self._run(self._consumer.fill)
            else:
                yield record

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Set how a record is acknowledged (explicit mode only), as AsyncShareConsumer.acknowledge does."""
        with self._using():
            self._consumer.acknowledge(record, kind)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Set how the delivered record at this offset is acknowledged, as `acknowledge` does."""
        with self._using():
            self._consumer.acknowledge_offset(topic, partition, offset, kind)

    def commit_sync(self, timeout_s: float | None = None) -> CommitResults:
        """Send the acknowledgements, wait for the results, and return {partition: error, or None for success}.

        The details are those of AsyncShareConsumer.commit_sync.
        """
        return self._run(self._consumer.commit_sync, timeout_s)

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting for the results. The commit callback receives the results."""

        async def commit() -> None:
            self._consumer.commit_async()

        self._run(commit)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Set the function that receives the result of each partition's acknowledgements.

        Polls, commits and `close` call this function on the caller's thread. Its exceptions are logged.
        """
        with self._using():
            self._consumer.set_acknowledgement_commit_callback(callback)

    # -- information ---------------------------------------------------------------------------------------------------

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the lock timeout of the last fetched records; None if no records have been fetched yet."""
        return self._consumer.acquisition_lock_timeout_ms()

    def metrics(self) -> Metrics:
        """Return {group of metrics: {metric: value}}, with Kafka's names. A value is NaN until it is measured."""
        return self._consumer.metrics()

    def client_instance_id(self, timeout_s: float = CLOSE_TIMEOUT_S) -> uuid.UUID:
        """Return the id that a broker has assigned to this client for client metrics (KIP-714).

        Raises the same errors as AsyncShareConsumer.client_instance_id.
        """
        return self._run(self._consumer.client_instance_id, timeout_s)

    @property
    def group_id(self) -> str:
        """The id of the share group."""
        return self._consumer.group_id

    @property
    def member_id(self) -> str:
        """The member id. It does not change while the consumer exists."""
        return self._consumer.member_id

    @property
    def undecodable(self) -> list[UndecodableRecord]:
        """The latest records (at most 1,000) that were not delivered because they could not be decoded."""
        return self._consumer.undecodable

    # -- life ----------------------------------------------------------------------------------------------------------

    def run(self, drain_s: float = 30.0) -> None:
        """Call the registered handler for each record until `stop`, SIGTERM or SIGINT; then close the consumer.

        After the stop, records for which no handler call is in progress are released immediately. Calls in progress
        may continue for up to `drain_s` seconds. Calls that take longer are cancelled, and their records are released.
        Functions run on threads, and coroutines run on a separate event loop. Neither delays heartbeats and renewals.

        Raises IllegalStateError if no handler is registered, and the errors that `poll` raises.
        """
        coroutines = LoopThread("sharegroup-handlers")

        async def elsewhere(coroutine: Coroutine[Any, Any, Any]) -> Any:
            return await asyncio.wrap_future(coroutines.submit(coroutine))

        runner = HandlerRunner(self._consumer, self._handler(), elsewhere)
        self._stops(runner.stop)
        try:
            with signals_call(runner.stop):
                self._run(runner.run, drain_s)
        finally:
            coroutines.close(lambda: None)
            self.close()

    def wakeup(self) -> None:
        """Make the waiting poll or commit, or else the next poll or commit, raise WakeupError. Thread-safe."""
        self._consumer.wakeup()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Leave the group, and release the records that are not acknowledged, as AsyncShareConsumer.close does.

        Also end the thread of the event loop. A second call has no effect.
        """
        if self._is_closed:
            return
        self._run(self._consumer.close, timeout_s)
        self._is_closed = True
        self._thread.close(lambda: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        if not self._user.acquire(blocking=False):
            self._consumer.callbacks.check()
            raise ConcurrentUseError(
                "the consumer is in use by another thread, or the call comes from inside a deserializer"
            )
        try:
            yield
        finally:
            self._user.release()

    def _run(self, call: Callable[..., Coroutine[Any, Any, _Result]], *arguments: Any) -> _Result:
        """Run the coroutine of `call` on the event loop, and return its result or raise its error.

        Meanwhile, the caller's thread runs deserializers and the commit callback.
        """
        with self._using():
            if self._is_closed:  # the thread has ended
                raise IllegalStateError("Share consumer closed")
            try:
                return self._caller.result(self._thread.submit(call(*arguments)))
            finally:
                self._consumer.callbacks.run()
