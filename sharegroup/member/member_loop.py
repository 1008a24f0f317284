"""What the member's own thread does until the membership is over: read, step, append.

An error of Kafka's client loses requests but no state: what is not answered is due again. A refusal for good is told
by `on_failure`, and the loop goes on until the member is closed. Any other error is told so too, and ends the loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kafka.errors import KafkaError

from sharegroup.member.channel import Channel
from sharegroup.member.member_logic import renews
from sharegroup.member.shared_logic import SharedLogic

logger = logging.getLogger(__name__)

_POLL_MS = 50
#: While the broker is away there is nothing to wait on.
PAUSE_S = 1


class MemberLoop:
    """Drives a `MemberLogic` in the order that it asks for. `on_failure` is called once, however often it fails."""

    def __init__(self, shared: SharedLogic, channel: Channel, on_failure: Callable[[], None]) -> None:
        self._shared, self._channel, self._on_failure = shared, channel, on_failure
        self._is_open = self._is_told = False

    def run(self) -> None:
        """Until the member has left the group or cannot; then the channel is closed."""
        try:
            while not self._is_over():
                try:
                    self._step()
                except KafkaError as error:
                    logger.warning("the member cannot reach Kafka, will try again: %s", error)
                    time.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - told by `failure`, which ends the query
            self._fail(error)
        finally:
            with self._shared.turn() as (logic, _):
                logic.closed()
            self._channel.close()

    def _is_over(self) -> bool:
        with self._shared.turn() as (logic, now_ms):
            return logic.is_over(now_ms)

    def _step(self) -> None:
        if not self._is_open:
            self._open()
            return
        self._refresh_metadata()
        responses = self._channel.poll(_POLL_MS)
        with self._shared.turn() as (logic, now_ms):
            logic.set_brokers_clock(self._channel.brokers_ahead_ms())
            requests = logic.step(responses, now_ms)
            failure = logic.failure
            self._shared.tell_step()
        self._channel.send(requests, wait=renews(requests))
        with self._shared.turn() as (logic, now_ms):
            logic.appended(requests, now_ms)
        if failure is not None and not self._is_told:
            self._fail(failure)

    def _open(self) -> None:
        if not self._channel.open():
            time.sleep(_POLL_MS / 1000)  # the job has not made its topics yet
            return
        self._is_open = True
        with self._shared.turn() as (logic, _):
            logic.opened()

    def _refresh_metadata(self) -> None:
        with self._shared.turn() as (logic, now_ms):
            is_due, subscription = logic.metadata_is_due(now_ms), logic.subscription
        if is_due:
            names = subscription.topics
            if subscription.pattern is not None:
                names = subscription.matching(self._channel.topic_names())
            found = self._channel.topics_metadata(names)
            with self._shared.turn() as (logic, now_ms):
                if logic.subscription == subscription:  # else it is due again
                    logic.take_metadata(found, now_ms)

    def _fail(self, error: Exception) -> None:
        """What came first is the failure; what comes after it is only logged."""
        logger.error("the member has failed", exc_info=error)
        with self._shared.turn() as (logic, _):
            logic.failure = logic.failure or error
            self._shared.tell_step()
        if not self._is_told:
            self._is_told = True
            self._on_failure()
