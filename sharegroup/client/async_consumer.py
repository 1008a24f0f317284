"""The share consumer for asyncio (KIP-932). It runs on the caller's loop, without threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sharegroup.client.caller_thread import LoopCaller
from sharegroup.client.commit_callback import CommitCallback, CommitCallbackRunner
from sharegroup.client.connector import Connector, SocketConnector
from sharegroup.client.core.acknowledgements import AcknowledgeResult
from sharegroup.client.core.consumer_core import ConsumerCore, commit_results
from sharegroup.client.errors import ConcurrentUseError, IllegalStateError, WakeupError
from sharegroup.client.handlers.registered import HandlesRecords
from sharegroup.client.handlers.runner import HandlerRunner
from sharegroup.client.handlers.stop_signals import signals_call
from sharegroup.client.records import CommitResults, Possession, Record, UndecodableRecord
from sharegroup.client.requests import Requests
from sharegroup.client.settings import parse_settings
from sharegroup.errors import ErrorCode, RequestError, ShareGroupError
from sharegroup.kafka_clients.consumer_metrics import Metrics
from sharegroup.log_fields import LogFields
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from typing import Self

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 30.0


class AsyncShareConsumer(HandlesRecords):
    """A share consumer for asyncio. Each consumer is one member of a share group.

    Deserializers and the commit callback run on the caller's loop, so they must not block it.

    Args:
        bootstrap_servers: one or several `host:port`, as a list or separated by commas.
        topics: the topics to subscribe to at first; `subscribe` can replace them.
        connector: opens the connections and contains the clock. Only tests set it.
        member_id: the member id; by default, the consumer chooses a random one. Only tests set it.
        settings: Kafka's settings with underscores (`ConsumerSettings`), and kafka-python's `security_protocol`,
            `ssl_*` and `sasl_*`.

    Raises:
        InvalidSettingError: a setting is unknown, not allowed for share groups, or has an invalid value.
    """

    def __init__(
        self,
        bootstrap_servers: str | Collection[str],
        *,
        group_id: str,
        topics: Collection[str] = (),
        connector: Connector | None = None,
        member_id: str | None = None,
        **settings: Any,
    ) -> None:
        self.settings = parse_settings({"bootstrap_servers": bootstrap_servers, "group_id": group_id, **settings})
        connector = connector or SocketConnector()
        self.clock = connector.clock
        self._core = ConsumerCore(self.settings, member_id or str(uuid.uuid4()), self.clock.now_ms())
        self._changed = asyncio.Event()
        self._requests = Requests(self.settings, self._core, connector, self._changed.set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.callbacks = CommitCallbackRunner()
        #: One list per waiting `commit_sync` call. Each new result is appended to all of these lists.
        self._commits: list[list[AcknowledgeResult]] = []
        self._is_woken = self._is_closed = False
        #: `decoding_caller` runs the deserializers. `callback_caller` runs the commit callback.
        self.decoding_caller = self.callback_caller = LoopCaller()
        if topics:
            self.subscribe(topics)

    # -- subscription --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscription. The next poll joins the group if the consumer is not a member yet.

        Raises ValueError if `topics` is empty or contains an empty name.
        """
        self._check_open()
        if not topics or isinstance(topics, str) or any(not topic or not topic.strip() for topic in topics):
            raise ValueError(f"topics must be a collection of names: {topics!r}")
        self._core.membership.subscribe(topics)
        self._requests.note_subscription()

    def subscription(self) -> set[str]:
        """Return the topics of the subscription."""
        self._check_open()
        return set(self._core.membership.topics)

    async def unsubscribe(self) -> None:
        """Clear the subscription and leave the group. Records are acknowledged or released as by `close`."""
        self._check_open()
        await self._leave(CLOSE_TIMEOUT_S)
        self._core.membership.subscribe(())
        self.callbacks.start(self.callback_caller)

    # -- records -------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = 1.0) -> list[Record[Any]]:
        """Wait for records and return them. Returns an empty list if no record arrives within the timeout.

        In implicit mode, the call accepts the records of the previous poll. In explicit mode, the application must
        have acknowledged all of them. The acknowledgements are sent with the next fetch.

        Raises:
            IllegalStateError: the consumer has no subscription, or a record of the previous poll is not acknowledged.
            WakeupError: `wakeup` was called.
            RequestError: a broker rejected the member or one of its requests.
        """
        with self._polling():
            await self._wait_for_records(self.clock.now_ms() + int(timeout_s * 1000))
            records = self._core.deliver(self.clock.now_ms())
            self._core.metrics.poll_ended(self.clock.now_ms())
        self.callbacks.start(self.callback_caller)
        return records

    async def __aiter__(self) -> AsyncIterator[Record[Any]]:
        """Yield records without end. All records of one poll are yielded before the next poll.

        In implicit mode, the next poll or commit accepts the records that were yielded before it.
        """
        while True:
            record = self.deliver_one()
            if record is None:
                await self.fill()
            else:
                yield record

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Set how a record is acknowledged (explicit mode only). The next poll or commit sends the acknowledgement.

        Raises IllegalStateError in implicit mode, if the consumer does not hold the record, or if `kind` is GAP.
        """
        self._check_open()
        self._core.acknowledge(record, kind)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Set how the delivered record at this offset is acknowledged, as `acknowledge` does."""
        self._check_open()
        self._core.check_explicit()
        self._core.in_hand.acknowledge_offset(topic, partition, offset, kind)

    async def commit_sync(self, timeout_s: float | None = None) -> CommitResults:
        """Send the acknowledgements, wait for the results, and return {partition: error, or None for success}.

        In implicit mode, the call accepts the records of the previous poll. If a partition has no result after the
        timeout (None: `default_api_timeout_ms`), its error is REQUEST_TIMED_OUT. The commit callback receives the
        actual result later.
        """
        self._check_open()
        self._bind()
        timeout_s = self.settings.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        end_ms = self.clock.now_ms() + int(timeout_s * 1000)
        self._collect()  # results of earlier acknowledgements are not of this commit
        self._core.queue_acknowledgements(end_ms)
        found: list[AcknowledgeResult] = []
        self._commits.append(found)
        try:
            while self._core.is_committing and self.clock.now_ms() < end_ms:
                self._requests.commit()
                await self._wait(end_ms)
                self._collect()
        finally:
            self._commits = [commit for commit in self._commits if commit is not found]
        results = commit_results(found)
        for node in self._core.nodes.values():
            for source in node.waiting_sources:
                results[source] = RequestError(ErrorCode.REQUEST_TIMED_OUT, f"no response within {timeout_s:g} s")
        self.callbacks.start(self.callback_caller)
        return results

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting for the results. The commit callback receives the results."""
        self._check_open()
        self._bind()
        self._core.queue_acknowledgements(self.clock.now_ms() + self.settings.default_api_timeout_ms)
        self._requests.commit()
        self.callbacks.start(self.callback_caller)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Set the function that receives the result of each partition's acknowledgements.

        Polls, commits and `close` call this function. It must not use the consumer. Its exceptions are logged.
        """
        self._check_open()
        self.callbacks.callback = callback

    # -- information ---------------------------------------------------------------------------------------------------

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the lock timeout of the last fetched records; None if no records have been fetched yet."""
        return self._core.lock_timeout_ms

    def metrics(self) -> Metrics:
        """Return {group of metrics: {metric: value}}, with Kafka's names. A value is NaN until it is measured."""
        return self._core.metrics.values(self.clock.now_ms())

    async def client_instance_id(self, timeout_s: float = CLOSE_TIMEOUT_S) -> uuid.UUID:
        """Return the id that a broker has assigned to this client for client metrics (KIP-714).

        Raises RequestError (UNSUPPORTED_VERSION) if the broker does not support client metrics, and TimeoutError if no
        broker responds within the timeout.
        """
        self._check_open()
        self._bind()
        async with asyncio.timeout(timeout_s):
            return await self._requests.client_instance_id()

    @property
    def group_id(self) -> str:
        """The id of the share group."""
        return self._core.membership.group_id

    @property
    def member_id(self) -> str:
        """The member id. It does not change while the consumer exists."""
        return self._core.membership.member_id

    @property
    def undecodable(self) -> list[UndecodableRecord]:
        """The latest records (at most 1,000) that were not delivered because they could not be decoded."""
        return list(self._core.undecodable)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def run(self, drain_s: float = 30.0) -> None:
        """Call the registered handler for each record until `stop`, SIGTERM or SIGINT; then close the consumer.

        After the stop, records for which no handler call is in progress are released immediately. Calls in progress
        may continue for up to `drain_s` seconds. Calls that take longer are cancelled, and their records are released.
        Coroutines run on the caller's loop, so they must not block it.

        Raises IllegalStateError if no handler is registered, and the errors of `poll`.
        """
        self._check_open()

        async def here(coroutine: Any) -> Any:
            return await coroutine

        runner = HandlerRunner(self, self._handler(), here)
        self._stops(runner.stop)
        with signals_call(runner.stop):
            await runner.run(drain_s)

    def wakeup(self) -> None:
        """Make the waiting poll or commit, or else the next poll or commit, raise WakeupError. Thread-safe."""
        self._is_woken = True
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._changed.set)

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Leave the group, and release the records that are not acknowledged. A second call has no effect.

        In explicit mode, the acknowledgements that the application has set are sent first. In implicit mode, the
        records of the last poll are released, because no later poll or commit accepts them.
        """
        if self._is_closed:
            return
        self.callbacks.check()
        try:
            await self._leave(timeout_s)
        finally:
            self._is_closed = True
            self._changed.set()
            await self._requests.close()
            self.callbacks.start(self.callback_caller)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for ShareConsumer and handlers --------------------------------------------------------------------------------

    def begin_handling(self) -> None:
        """Switch to explicit acknowledgement for a handler loop, which polls while its handlers still hold records.

        From now on, `poll` does not require that earlier records are acknowledged. It also does not return a record
        again after its lock was renewed, because the handler still has it.
        """
        self.settings = self._core.begin_handling()

    def limit_fetches(self, records: int, size: int) -> None:
        """Limit the next fetches to `records` records and `size` bytes. The limits of the settings still apply."""
        self._core.limit_fetches(records, size)

    @property
    def has_fetched(self) -> bool:
        """Whether fetched records wait for a poll. Nothing renews their locks until then."""
        return self._core.has_records

    def note_handling(self) -> None:
        """Restart the time limit `max_poll_interval_ms`, as a poll does. Also process acknowledgement results.

        A handler loop calls this, because it polls only while it has room for more records.
        """
        self._core.membership.note_poll(self.clock.now_ms())
        self._collect()

    def send_without_poll(self, is_last: bool) -> None:
        """Send the queued acknowledgements without a fetch.

        If no poll follows (`is_last`), also release the fetched records that the application has not received.
        """
        if is_last:
            self._core.release_unpolled(self.clock.now_ms())
        self._requests.commit_after_turns()

    def possession(self, record: Record[Any]) -> Possession:
        """Return whether this consumer holds the record, is renewing its lock, or has lost it."""
        return self._core.in_hand.possession(record)

    def drop(self, records: Iterable[Record[Any]]) -> None:
        """Forget records whose locks have ended, without an acknowledgement."""
        for record in records:
            if self._core.in_hand.possession(record) is Possession.HELD:
                self._core.in_hand.remove(record)

    def give_back(self, records: Iterable[Record[Any]]) -> None:
        """Release records that were not passed to a handler. A gateway does not count their delivery."""
        self._core.give_back(records, self.clock.now_ms())

    def deliver_one(self) -> Record[Any] | None:
        """Deliver and return the next fetched record. Return None if `fill` must be called first.

        Any thread may call this, but only one at a time.
        """
        return self._core.deliver_one(self.clock.now_ms())

    async def fill(self) -> None:
        """Poll, so that `deliver_one` has records to return. Wait until at least one record is fetched.

        As in `poll`, the acknowledgements of the earlier records are sent with the next fetch. Raises the errors of
        `poll`.
        """
        with self._polling():
            await self._wait_for_records(None)
            self._core.begin_iteration(self.clock.now_ms())
            self._core.metrics.poll_ended(self.clock.now_ms())
        self.callbacks.start(self.callback_caller)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _wait_for_records(self, end_ms: int | None) -> None:
        """Queue the acknowledgements of the delivered records, and wait until further records are fetched and decoded.

        The wait ends at `end_ms` at the latest; None means no time limit.
        """
        self._core.begin_poll(self.clock.now_ms())
        while True:
            self._requests.start_turns()
            await asyncio.sleep(0)  # lets the fetches be sent: they shall not carry what `close` acknowledges
            self._check_open()  # another task may have closed the consumer
            self._collect()
            self._raise_problems()
            if self._core.has_records:
                arrived = self._core.take_arrived()
                self._requests.start_turns_ahead()
                try:
                    await asyncio.sleep(0)  # lets the fetches for the next poll be sent before records are decoded
                    decoded = await self.decoding_caller.run(self._core.decode, arrived)
                except asyncio.CancelledError:
                    self._core.put_back(arrived)
                    raise
                self._core.add_decoded(decoded, self.clock.now_ms())
                if not self._core.fetched:  # only gaps, refused or late records: nothing else starts the next fetch
                    self._requests.start_turns()
            if self._core.fetched or (end_ms is not None and self.clock.now_ms() >= end_ms):
                return
            if not self._core.has_records:
                await self._wait(end_ms)

    async def _leave(self, timeout_s: float) -> None:
        """End the share sessions, leave the group, and discard all records.

        In explicit mode, the acknowledgements that the application has set are sent first. If leaving fails or takes
        longer than the timeout, log a warning and raise no error.
        """
        if self.settings.is_explicit:
            self._core.queue_acknowledgements(self.clock.now_ms() + int(timeout_s * 1000))
        try:
            async with asyncio.timeout(timeout_s):
                await self._requests.leave()
        except (TimeoutError, ShareGroupError) as error:
            reason = str(error) or "the brokers did not respond in time; locks end by timeout"
            fields = LogFields(group=self.settings.group_id, error=reason)
            logger.warning("group %(group)s: failed to leave the group: %(error)s", fields)
        self._collect()
        self._core.end()

    @contextlib.contextmanager
    def _polling(self) -> Iterator[None]:
        self._check_open()
        membership = self._core.membership
        if membership.is_polling:
            raise ConcurrentUseError("another poll is in progress")
        self._bind()
        membership.is_polling = True
        try:
            yield
        finally:
            membership.is_polling = False
            membership.note_poll(self.clock.now_ms())

    def _bind(self) -> None:
        """Bind the consumer to the running event loop, and start the heartbeats.

        Raises ConcurrentUseError if the consumer is bound to another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise ConcurrentUseError("the consumer belongs to another event loop")
        self._loop = loop
        self._requests.start()

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError("Share consumer closed")
        self.callbacks.check()

    def _raise_problems(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("the consumer was woken up")
        self._requests.raise_problem()

    async def _wait(self, until_ms: int | None) -> None:
        """Wait for a response, a new assignment or a wakeup, at most until `until_ms`.

        If a response or an assignment has arrived since the previous wait, return immediately. Raises WakeupError if
        `wakeup` was called before this wait.
        """
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("the consumer was woken up")
        await self.clock.wait(self._changed, until_ms)
        self._changed.clear()

    def _collect(self) -> None:
        """Pass new results of acknowledgements to the commit callback and to the waiting commits."""
        results = self._core.take_results(self.clock.now_ms())
        for commit in self._commits:
            commit += results
        self.callbacks.add(results)
