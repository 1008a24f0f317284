"""A member of a share group in the driver: a `MemberLogic`, and the threads that need it.

| thread | calls | of the channel |
| --- | --- | --- |
| the member's own, `MemberLoop.run`, from `start` to its end | the steps of the logic | everything |
| that of the running batch, Spark's | `begin`, `acknowledge`, `finish` of one batch | `send`, of acknowledgements |
| any other | everything else | nothing |

What holds:

- Whoever uses the logic, or a call of it that is on its way, has its turn (`SharedLogic`): one at a time.
- Kafka is not waited for within a turn, so nobody waits for it who only wants to look.
- Requests of one step are appended before those of the next. The logic is told that a renewal or an acknowledgement is
  appended after the broker has it, never before.
- Who waits for answers looks again after each step, at a failure, and behind its deadline.
- After a failure nobody waits for answers: NotAnsweredError. What needs none is still appended, as long as the channel
  takes it: one that is closed is tried like one that cannot reach Kafka, for `acknowledge_timeout_ms`.
- The thread closes the channel when it ends, and ends when the membership is over or has failed by an unforeseen error.
  `close` waits for that for three times `leave_timeout_ms`; a thread that hangs in Kafka's client for longer is left to
  the end of the process.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from kafka.errors import KafkaError

from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.member.batch_calls import Acknowledging
from sharegroup.member.channel import Channel
from sharegroup.member.held_batches import Offers
from sharegroup.member.member_logic import MemberLogic, MemberSettings, Request
from sharegroup.member.member_loop import PAUSE_S, MemberLoop
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch, records_in
from sharegroup.member.shared_logic import SharedLogic
from sharegroup.member.subscription import Subscription
from sharegroup.types import AcknowledgementBatch

logger = logging.getLogger(__name__)


class Member:
    """What threads other than the member's own call. `on_failure` is called once, by the member's own, when `failure`
    is there."""

    def __init__(
        self,
        settings: MemberSettings,
        channel: Channel,
        offers: Offers,
        on_failure: Callable[[], None],
        now_ms: Callable[[], int] = steady_ms,
    ) -> None:
        self.incarnation = uuid.uuid4().hex[:12]
        self._settings, self._channel = settings, channel
        self._shared = SharedLogic(MemberLogic(settings, offers, self.incarnation), now_ms)
        loop = MemberLoop(self._shared, channel, on_failure)
        self._thread = threading.Thread(target=loop.run, name="share-consumer-member", daemon=True)

    # -- what can be seen ------------------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The member's id in the group."""
        return self._settings.member_id

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """What the member is to fetch from; empty until it has joined."""
        with self._shared.turn() as (logic, _):
            return logic.assignment

    @property
    def failure(self) -> Exception | None:
        """What ended the membership for good, if anything did."""
        with self._shared.turn() as (logic, _):
            return logic.failure

    @property
    def redelivered(self) -> int:
        """How many ranges were acknowledged too late: they were or will be delivered again."""
        with self._shared.turn() as (logic, _):
            return logic.redelivered

    def metrics(self) -> dict[str, dict[str, float]]:
        """As `MemberCounts.values`, now."""
        with self._shared.turn() as (logic, now_ms):
            return logic.counts.values(now_ms)

    # -- for the driver --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and begin to ask, when the job's topics are there. To be called once, before `close`."""
        self._thread.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Read other topics from now on; what is held of the others is worked on."""
        with self._shared.turn() as (logic, _):
            logic.subscribe(subscription)

    def stop_offering(self) -> None:
        """Offer no further batch and ask for nothing more; the running batch goes on."""
        with self._shared.turn() as (logic, now_ms):
            logic.stop_offering(now_ms)

    def close(self, leave_group: bool = False) -> None:
        """Wait for the last answers, give unused ranges back, leave the group, and end the thread.

        A static member stays in the group for its next process, unless it is to `leave_group`.
        """
        with self._shared.turn() as (logic, now_ms):
            logic.close(now_ms, leave_group)
        if self._thread.is_alive():
            self._thread.join(3 * self._settings.leave_timeout_ms / 1000)

    # -- for the running batch -------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch) -> tuple[HeldRange, ...]:
        """`MemberLogic.begin`, until it is known. Raises NotAnsweredError."""
        with self._shared.turn() as (logic, now_ms):
            beginning = logic.begin(batch, now_ms)
            while (ranges := beginning.poll(now_ms)) is None:
                now_ms = self._shared.wait_for_step(beginning.deadline_ms)
            logic.counts.polled(records_in(ranges), now_ms)
            return ranges

    def holds_batch(self) -> bool:
        """Whether the running batch's locks are all held, so that nobody else can have got its records."""
        with self._shared.turn() as (logic, now_ms):
            return logic.holds_batch(now_ms)

    def acknowledge(
        self, batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]], granted: Sequence[HeldRange]
    ) -> None:
        """`MemberLogic.acknowledge`, until the acknowledgements are appended. Raises NotAnsweredError."""
        with self._shared.turn() as (logic, now_ms):
            acknowledging = logic.acknowledge(batches, granted, now_ms)
            while not acknowledging.may_append(now_ms):
                now_ms = self._shared.wait_for_step(acknowledging.deadline_ms)
        while not self._append(acknowledging):
            time.sleep(PAUSE_S)

    def finish(self, seq: int) -> None:
        """The batch is acknowledged."""
        with self._shared.turn() as (logic, _):
            logic.finish(seq)

    def _append(self, acknowledging: Acknowledging) -> bool:
        """Whether there is nothing left to append."""
        with self._shared.turn() as (_, now_ms):
            requests = acknowledging.due(now_ms)
        is_appended = self._send(requests)
        with self._shared.turn():
            if is_appended:
                acknowledging.appended()
            return acknowledging.is_done

    def _send(self, requests: Sequence[Request]) -> bool:
        """Whether the broker has them now."""
        if not requests:
            return False
        try:
            self._channel.send(requests, wait=True)
        except KafkaError as error:
            logger.warning("acknowledgements could not be appended, will try again: %s", error)
            return False
        return True
