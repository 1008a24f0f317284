"""A member of a share group in the driver: the thread and the channel around `MemberLogic`.

What holds for the wrapper:

- Each call of the logic is made with `_changed` held, so the logic sees one call at a time; `now_ms` is read with it
  held, so the logic's time never goes back (as far as the machine's clock does not).
- Nothing that may take long - Kafka, the offer's reader - is waited for with `_changed` held. Requests of one step are
  appended before those of the next, by the thread alone; acknowledgements are appended by the batch's own thread.
- A renewal is told to be appended (`MemberLogic.appended`) after the broker has it, never before; so is an
  acknowledgement (`Acknowledging.appended`).
- The thread notifies `_changed` after each step and at its failure; whoever polls a call of the logic waits on it.
- An error of Kafka's client loses requests but no state: what is not answered is due again. Any other error ends the
  thread; it is the logic's `failure` then, and `on_failure` is called once.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafka.errors import KafkaError

from sharegroup.member.batch_calls import Acknowledging
from sharegroup.member.held_batches import Offers
from sharegroup.member.member_logic import MemberLogic, MemberSettings, Request, renews
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch
from sharegroup.protocol.response_rows import Response
from sharegroup.protocol.share_group_requests import TopicMetadata
from sharegroup.types import AcknowledgementBatch

logger = logging.getLogger(__name__)

POLL_MS = 50
#: While the broker is away there is nothing to wait on.
_PAUSE_S = 1


class Channel(Protocol):
    """A member's way to Kafka: `row_channel.RowChannel`, or a test's."""

    def open(self) -> bool:
        """Begin to read responses."""

    def poll(self, timeout_ms: int) -> list[Response]:
        """Responses to this member."""

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        """Produce rows; with `wait` they are durable afterwards."""

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Ids and partition counts."""

    def close(self) -> None:
        """Close the connections."""


class Member:
    """Runs a `MemberLogic` in a thread of its own."""

    def __init__(
        self, settings: MemberSettings, channel: Channel, offers: Offers, on_failure: Callable[[], None]
    ) -> None:
        self._logic = MemberLogic(settings, offers, uuid.uuid4().hex[:12])
        self._settings, self._channel, self._on_failure = settings, channel, on_failure
        self._is_told = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="share-consumer-member", daemon=True)

    @property
    def incarnation(self) -> str:
        """Which process of the member this is."""
        return self._logic.incarnation

    @property
    def member_id(self) -> str:
        """The member's id in the group."""
        return self._settings.member_id

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """What the member is to fetch from; empty until it has joined."""
        return self._logic.assignment

    @property
    def failure(self) -> Exception | None:
        """What ended the membership for good, if anything did."""
        return self._logic.failure

    @property
    def redelivered(self) -> int:
        """How many ranges were acknowledged too late: they were or will be delivered again."""
        return self._logic.redelivered

    # -- for the driver --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and begin to ask, when the job's topics are there."""
        self._thread.start()

    def stop_offering(self) -> None:
        """Offer no further batch and ask for nothing more; the running batch goes on."""
        with self._changed:
            self._logic.stop_offering(_now_ms())

    def close(self) -> None:
        """Wait for the last answers, give unused ranges back, leave the group, and end the thread."""
        with self._changed:
            self._logic.close(_now_ms())
        if self._thread.is_alive():
            self._thread.join(3 * self._settings.leave_timeout_ms / 1000)

    # -- for the running batch -------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch) -> tuple[HeldRange, ...]:
        """`MemberLogic.begin`, until it is known. Raises NotAnsweredError."""
        with self._changed:
            beginning = self._logic.begin(batch, _now_ms())
            while (ranges := beginning.poll(_now_ms())) is None:
                self._wait_until(beginning.deadline_ms)
            return ranges

    def holds_batch(self) -> bool:
        """Whether the running batch's locks are all held, so that nobody else can have got its records."""
        with self._changed:
            return self._logic.holds_batch(_now_ms())

    def acknowledge(
        self, batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]], granted: Sequence[HeldRange]
    ) -> None:
        """`MemberLogic.acknowledge`, until the acknowledgements are appended. Raises NotAnsweredError."""
        with self._changed:
            acknowledging = self._logic.acknowledge(batches, granted, _now_ms())
            while not acknowledging.may_append(_now_ms()):
                self._wait_until(acknowledging.deadline_ms)
        while not self._append(acknowledging):
            time.sleep(_PAUSE_S)

    def finish(self, seq: int) -> None:
        """The batch is acknowledged."""
        with self._changed:
            self._logic.finish(seq)

    def _append(self, acknowledging: Acknowledging) -> bool:
        with self._changed:
            requests = acknowledging.due(_now_ms())
        try:
            if requests:
                self._channel.send(requests, wait=True)
                acknowledging.appended()
        except KafkaError as error:
            logger.warning("acknowledgements could not be appended, will try again: %s", error)
        return acknowledging.is_done

    def _wait_until(self, deadline_ms: int) -> None:
        """Wait for the thread's next step, at most to just behind the deadline."""
        self._changed.wait(max(0, deadline_ms - _now_ms()) / 1000 + POLL_MS / 1000)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._step()
                except KafkaError as error:
                    logger.warning("the member cannot reach Kafka, will try again: %s", error)
                    time.sleep(_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - told by `failure`, which ends the query
            self._fail(error)
        finally:
            self._channel.close()

    def _is_over(self) -> bool:
        with self._changed:
            return self._logic.is_over(_now_ms())

    def _step(self) -> None:
        if not self._logic.is_open:
            if not self._channel.open():
                time.sleep(POLL_MS / 1000)  # the job has not made its topics yet
                return
            with self._changed:
                self._logic.opened()
        self._refresh_metadata()
        responses = self._channel.poll(POLL_MS)
        with self._changed:
            requests = self._logic.step(responses, _now_ms())
            self._changed.notify_all()
        self._channel.send(requests, wait=renews(requests))
        with self._changed:
            self._logic.appended(requests, _now_ms())
        if self._logic.failure is not None and not self._is_told:
            self._fail(self._logic.failure)

    def _refresh_metadata(self) -> None:
        with self._changed:
            is_due = self._logic.metadata_is_due(_now_ms())
        if is_due:
            found = self._channel.topics_metadata(self._settings.topics)
            with self._changed:
                self._logic.take_metadata(found, _now_ms())

    def _fail(self, error: Exception) -> None:
        logger.error("the member has failed", exc_info=error)
        with self._changed:
            self._logic.failure = error
            self._is_told = True
            self._changed.notify_all()
        self._on_failure()


def _now_ms() -> int:
    return int(time.time() * 1000)
