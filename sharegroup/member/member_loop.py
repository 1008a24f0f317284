"""The loop of the member's own thread: it reads responses, calls `MemberLogic.step`, and appends requests.

If Kafka's client raises an error, requests may be lost. No state is lost, because a request without a response is sent
again. If the coordinator rejects the member permanently, the loop calls `on_failure` and continues until the member is
closed. After any other error it calls `on_failure` and ends.
"""

import logging
import time
from collections.abc import Callable

from kafka.errors import KafkaError

from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.log_fields import LogFields
from sharegroup.member.channel import Channel
from sharegroup.member.member_logic import has_renewal
from sharegroup.member.shared_logic import SharedLogic

logger = logging.getLogger(__name__)

_POLL_MS = 50
#: The pause after an error of Kafka's client, in seconds.
PAUSE_S = 1


class MemberLoop:
    """The loop of the member's own thread, which calls the methods of a `MemberLogic` in the required order.

    It calls `on_failure` at most once.
    """

    def __init__(self, shared: SharedLogic, channel: Channel, on_failure: Callable[[], None]) -> None:
        self._shared, self._channel, self._on_failure = shared, channel, on_failure
        self._is_open = self._is_failure_reported = False
        self._outage = OutageLog(logger, "the member cannot reach Kafka", "the member reaches Kafka again")

    def run(self) -> None:
        """Run until the membership has ended (`MemberLogic.is_over`) or an unexpected error occurs.

        At the end, close the channel. After an error of Kafka's client, the loop pauses and continues.
        """
        try:
            while not self._is_over():
                try:
                    self._step()
                except KafkaError as error:
                    self._outage.report_failure(repr(error))
                    time.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - `failure` has it, which ends the query
            self._fail(error)
        finally:
            with self._shared.turn() as (logic, _):
                logic.mark_closed()
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
        if responses:  # a poll without responses raises no error during an outage either
            self._outage.report_success()
        with self._shared.turn() as (logic, now_ms):
            logic.set_brokers_clock(self._channel.brokers_ahead_ms())
            requests = logic.step(responses, now_ms)
            failure = logic.failure
            self._shared.notify_step()
        self._channel.send(requests, wait=has_renewal(requests))
        with self._shared.turn() as (logic, now_ms):
            logic.mark_appended(requests, now_ms)
        if failure is not None and not self._is_failure_reported:
            self._fail(failure)

    def _open(self) -> None:
        if not self._channel.open():
            time.sleep(_POLL_MS / 1000)  # the job has not created its topics yet
            return
        self._is_open = True
        with self._shared.turn() as (logic, _):
            logic.mark_open()

    def _refresh_metadata(self) -> None:
        with self._shared.turn() as (logic, now_ms):
            is_due, subscription = logic.metadata_is_due(now_ms), logic.subscription
        if is_due:
            names = subscription.topics
            if subscription.pattern is not None:
                names = subscription.matching_topics(self._channel.topic_names())
            found = self._channel.topics_metadata(names)
            with self._shared.turn() as (logic, now_ms):
                if logic.subscription == subscription:  # otherwise it is due again
                    logic.handle_metadata(found, now_ms)

    def _fail(self, error: Exception) -> None:
        """Log an error. If it is the first error, store it as `MemberLogic.failure` and call `on_failure`."""
        with self._shared.turn() as (logic, _):
            logger.error("member %(member)s has failed", LogFields(member=logic.member_id), exc_info=error)
            logic.failure = logic.failure or error
            self._shared.notify_step()
        if not self._is_failure_reported:
            self._is_failure_reported = True
            self._on_failure()
