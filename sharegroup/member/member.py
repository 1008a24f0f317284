"""A member of a share group in the driver: a `MemberLogic` and the threads that use it.

| thread | what it calls | what it uses of the channel |
| --- | --- | --- |
| the member's own thread (`MemberLoop.run`) | the steps of the logic | everything |
| the thread of Spark that runs the batch | `begin`, `acknowledge`, `finish` of one batch | `send` of acknowledgements |
| any other thread | everything else | nothing |

Invariants:

- A thread uses the logic, or an object that `begin` or `acknowledge` returned, only in a *turn* (`SharedLogic`). Only
  one turn runs at a time.
- A turn never waits for Kafka, so reading the state never waits for Kafka either.
- Requests of one step are appended before those of the next. `mark_appended` is called for a renewal or an
  acknowledgement only after the broker has confirmed it.
- A thread that waits for responses checks for them after each step, at a failure, and after its deadline.
- After a failure, threads that wait for responses raise ResponseTimeoutError. An acknowledgement that does not wait for
  responses is still appended until the channel is closed.
- On a closed channel, `acknowledge` raises ResponseTimeoutError: at once if the member has failed, otherwise after
  `acknowledge_timeout_ms`.
- The member's own thread ends when the membership has ended or an unexpected error occurs, and then closes the channel.
  `close` waits for the end of the thread, for up to three times `leave_timeout_ms`. A thread that hangs in Kafka's
  client for longer ends with the process.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from kafka.errors import KafkaError

from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.log_fields import LogFields
from sharegroup.member.batch_calls import PendingAcknowledge
from sharegroup.member.channel import Channel
from sharegroup.member.held_batches import Offers
from sharegroup.member.member_logic import MemberLogic, MemberSettings, Request
from sharegroup.member.member_loop import PAUSE_S, MemberLoop
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch, count_records
from sharegroup.member.shared_logic import SharedLogic
from sharegroup.member.subscription import Subscription
from sharegroup.types import AcknowledgementBatch

logger = logging.getLogger(__name__)


class Member:
    """A member of a share group, which runs on a thread of its own from `start` to `close`.

    Any other thread may call the methods of this class. If the member fails, the member's own thread calls `on_failure`
    once.
    """

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
        self._outage = OutageLog(
            logger,
            "member %(member)s: failed to append acknowledgements",
            "member %(member)s: acknowledgements are appended again",
            fields=LogFields(member=settings.member_id),
        )
        self._shared = SharedLogic(MemberLogic(settings, offers, self.incarnation), now_ms)
        loop = MemberLoop(self._shared, channel, on_failure)
        self._thread = threading.Thread(target=loop.run, name="share-consumer-member", daemon=True)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self._settings.group_id

    @property
    def member_id(self) -> str:
        return self._settings.member_id

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """The assigned topic-partitions; empty until the member has joined."""
        with self._shared.turn() as (logic, _):
            return logic.assignment

    @property
    def failure(self) -> Exception | None:
        """The error that ended the membership permanently, if any."""
        with self._shared.turn() as (logic, _):
            return logic.failure

    @property
    def redelivered(self) -> int:
        """The number of ranges that were acknowledged too late. Their records are delivered again."""
        with self._shared.turn() as (logic, _):
            return logic.redelivered

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics as {group of metrics: {metric: value}}, with Kafka's names."""
        with self._shared.turn() as (logic, now_ms):
            return logic.metric_values(now_ms)

    # -- for the driver --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the member's thread. It joins the group and fetches as soon as the job's topics exist.

        Must be called only once, and before `close`.
        """
        self._thread.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Change the subscribed topics. Held records of topics that are no longer subscribed are still processed."""
        with self._shared.turn() as (logic, _):
            logic.subscribe(subscription)

    def stop_offering(self) -> None:
        """Stop offering batches and fetching records. The running batch continues."""
        with self._shared.turn() as (logic, now_ms):
            logic.stop_offering(now_ms)

    def close(self, leave_group: bool = False) -> None:
        """Wait for the last responses, return unused ranges, leave the group, and end the thread.

        A static member stays in the group for its next process, unless `leave_group` is True.
        """
        with self._shared.turn() as (logic, now_ms):
            logic.close(now_ms, leave_group)
        if self._thread.is_alive():
            self._thread.join(3 * self._settings.leave_timeout_ms / 1000)

    # -- for the running batch -------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch) -> tuple[HeldRange, ...]:
        """Begin a batch that the source has claimed, and return the ranges of the batch that the member still holds.

        If an earlier process offered the batch, this method waits until the ranges are renewed (see
        `MemberLogic.begin`). It raises ResponseTimeoutError if the job does not respond in time or the member fails.
        """
        with self._shared.turn() as (logic, now_ms):
            beginning = logic.begin(batch, now_ms)
            while (ranges := beginning.poll(now_ms)) is None:
                now_ms = self._shared.wait_for_step(beginning.deadline_ms)
            logic.count_batch(count_records(ranges), now_ms)
            return ranges

    def holds_batch(self) -> bool:
        """Return whether the member still holds all records of the running batch, so that no other member has any."""
        with self._shared.turn() as (logic, now_ms):
            return logic.holds_batch(now_ms)

    def acknowledge(
        self, batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]], granted: Sequence[HeldRange]
    ) -> None:
        """Append the running batch's acknowledgements, and return when the broker has stored them.

        Before that, this method waits for the responses to the previous batch's acknowledgements. It raises
        ResponseTimeoutError if one of these steps takes too long, or if a failure of the member prevents it.
        """
        with self._shared.turn() as (logic, now_ms):
            acknowledging = logic.acknowledge(batches, granted, now_ms)
            while not acknowledging.may_append(now_ms):
                now_ms = self._shared.wait_for_step(acknowledging.deadline_ms)
        while not self._append(acknowledging):
            time.sleep(PAUSE_S)

    def finish(self, seq: int) -> None:
        """End the running batch after its acknowledgement."""
        with self._shared.turn() as (logic, now_ms):
            logic.finish(seq, now_ms)

    def _append(self, acknowledging: PendingAcknowledge) -> bool:
        """Append the acknowledgements that can be sent now. Return whether all rows of `acknowledging` are appended."""
        with self._shared.turn() as (_, now_ms):
            requests = acknowledging.due_requests(now_ms)
        is_appended = self._send(requests)
        with self._shared.turn():
            if is_appended:
                acknowledging.mark_appended()
            return acknowledging.is_done

    def _send(self, requests: Sequence[Request]) -> bool:
        """Send requests. Return whether the broker has stored them; False if there are no requests."""
        if not requests:
            return False
        try:
            self._channel.send(requests, wait=True)
        except KafkaError as error:
            self._outage.report_failure(repr(error))
            return False
        self._outage.report_success()
        return True
