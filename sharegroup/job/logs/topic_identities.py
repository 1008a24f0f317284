"""Detects deleted topics: those whose name now refers to another topic, or to none.

Kafka identifies a topic by its id. A topic that is recreated under its name is another topic, with another log. Offsets
are requested by name, so they count only for the topic that the name refers to in the newest response.

A wrong conclusion would delete a group's state. Nothing is therefore concluded from missing responses, or from a single
response of one broker, whose metadata may be outdated:

    the topic's name refers to            conclusion
    no topic                              the topic was deleted, if all responses during the grace time agree
    another topic                         the topic was deleted, if all responses during two seconds agree
    another topic, and no response        the topic was deleted, if all responses during the grace time agree (outdated
    ever named the expected topic         responses are more likely in this case)
    a topic that was deleted before       the response is outdated, and ignored for the grace time

The grace time of a topic starts when the topic is first polled, because earlier responses concern other topics. Time
without responses does not count, because it proves nothing. For example, the job's machine may have been suspended. Or
the brokers may have been down between two starts, and reported no topics shortly after each start.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition

from sharegroup.log_fields import LogFields
from sharegroup.types import is_topic_name

logger = logging.getLogger(__name__)

#: The interval of polls, and how long responses must agree that a name refers to another topic, in ms. While a name
#: does not refer to the expected topic, the interval is half of the second value.
POLL_MS, CONFIRM_MS = 3_000, 2_000
#: The maximum pause after failed polls; the pause doubles each time.
_MAX_RETRY_MS = 30_000
#: At most this many ms between two responses count as grace time. This is as long as several polls, because long
#: micro-batches delay polls.
_MAX_GAP_MS = 10_000
#: For each name, at most this many ids of earlier topics are stored.
_MAX_IDS = 16


class TopicDescription(NamedTuple):
    """A broker's description of a topic: its id ("" if the brokers have none), and the leaders of its partitions."""

    topic_id: str
    leaders: Mapping[int, int]


Describe = Callable[[Collection[str]], Mapping[str, TopicDescription | None]]


@dataclass
class _Response:
    """Consecutive responses for a name that all report the same topic (`topic_id` is None if they report no topic).

    `first_ms` and `last_ms` are the times of the first and the last of these responses.
    """

    topic_id: str | None
    first_ms: int
    last_ms: int


class TopicIdentities:
    """Stores the topic that each name refers to, and decides which topics were deleted.

    `describe` returns the topic of each name, or None if there is no such topic. It leaves out names without a
    response. `grace_ms` is the config `topic.deletion.grace.ms`.
    """

    def __init__(self, describe: Describe, grace_ms: int) -> None:
        self._describe = describe
        self._grace_ms = grace_ms
        self._polled_since_ms: dict[tuple[str, str], int] = {}
        self._responses: dict[str, _Response] = {}
        self._seen: dict[str, set[str]] = {}
        self._replaced: dict[str, list[str]] = {}
        self._doubts: dict[str, _Response] = {}
        self._learned: set[str] = set()
        self._due_ms = 0
        self._retry_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time for a `poll`."""
        return now_ms >= self._due_ms

    def poll(self, topics: Collection[tuple[str, str]], now_ms: int) -> None:
        """Look up these topics, given as (name, id), if the interval has passed. Other topics are no longer polled."""
        if not self.is_due(now_ms):
            return
        self._polled_since_ms = {topic: self._polled_since_ms.get(topic, now_ms) for topic in topics}
        names = sorted({name for name, _ in topics if is_topic_name(name)})
        if not names:
            return
        if not self.poll_now(names, now_ms):
            self._retry_ms = min(2 * self._retry_ms or POLL_MS, _MAX_RETRY_MS)
            self._due_ms = now_ms + self._retry_ms
            return
        self._retry_ms = 0
        doubtful = any(name in self._responses and not self.stands_for(name, topic_id) for name, topic_id in topics)
        self._due_ms = now_ms + (CONFIRM_MS // 2 if doubtful else POLL_MS)

    def poll_now(self, names: Collection[str], now_ms: int) -> bool:
        """Look up names now, even if the interval has not passed; return whether a broker responded."""
        try:
            self._look_up(sorted(names), now_ms)
        except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
            logger.debug("cannot look up topics: %(error)s", LogFields(error=error))
            return False
        return True

    def describe(self, names: Collection[str], now_ms: int) -> dict[TopicPartition, int]:
        """Look up names now, and return the leader of each partition that has one.

        Raises the errors of the function `describe` that the constructor received.
        """
        return {
            TopicPartition(name, partition): leader
            for name, described in self._look_up(names, now_ms)
            for partition, leader in described.leaders.items()
        }

    def has_id(self, name: str) -> bool:
        """Return whether the topic with this name has an id; False only if a broker reported it without one.

        While no topic has the name, the result is True. If the result is False, a log that became shorter counts as the
        log of a recreated topic (`PartitionLog.has_topic_id`).
        """
        response = self._responses.get(name)
        return response is None or response.topic_id != ""

    def stands_for(self, name: str, topic_id: str) -> bool:
        """Return whether the name refers to this topic, by the newest response; False if there is no response yet.

        If the brokers have no topic ids, any topic with this name counts.
        """
        return name in self._responses and self._responses[name].topic_id in (topic_id, "")

    def is_gone(self, name: str, topic_id: str) -> bool:
        """Return whether the topic was deleted, by the rules of this module."""
        response = self._responses.get(name)
        if response is None or self.stands_for(name, topic_id):
            return False
        since_ms = max(response.first_ms, self._polled_since_ms.get((name, topic_id), response.last_ms))
        return topic_id in self._replaced.get(name, ()) or response.last_ms - since_ms >= self._grace_ms

    def pop_updated_names(self) -> set[str]:
        """Return the names with a response since the last call. Only topics with these names can be newly deleted."""
        learned, self._learned = self._learned, set()
        return learned

    def discard_names(self, names: Collection[str]) -> None:
        for remembered in (self._responses, self._seen, self._replaced, self._doubts):
            for name in names:
                remembered.pop(name, None)
        self._learned.difference_update(names)

    def _look_up(self, names: Collection[str], now_ms: int) -> list[tuple[str, TopicDescription]]:
        """Describe and store the topics that names refer to now. Return them, without those of outdated responses."""
        return [
            (name, described)
            for name, described in self._describe(names).items()
            if self._learn(name, None if described is None else described.topic_id, now_ms) and described is not None
        ]

    def _learn(self, name: str, topic_id: str | None, now_ms: int) -> bool:
        """Store a response and return True. If the response is outdated, store nothing and return False.

        A response is outdated if it has the id of an old topic that a new topic of the same name has replaced. If such
        responses continue for the grace time, they are accepted.
        """
        self._learned.add(name)
        if topic_id in self._replaced.get(name, ()) and not self._is_insisted_on(name, topic_id, now_ms):
            return False
        doubt = self._doubts.pop(name, None)
        response = self._responses.get(name)
        if response is None or response.topic_id != topic_id:
            first_ms = doubt.first_ms if doubt is not None and doubt.topic_id == topic_id else now_ms
            response = self._responses[name] = _Response(topic_id, first_ms, now_ms)
        self._skip_gap(name, response, now_ms)
        response.last_ms = now_ms
        if topic_id:
            seen = self._seen.setdefault(name, set())
            seen.add(topic_id)
            if response.last_ms - response.first_ms >= min(CONFIRM_MS, self._grace_ms):
                others = [other for other in self._replaced.get(name, []) if other != topic_id]
                self._replaced[name] = [*others, *sorted(seen - {topic_id})][-_MAX_IDS:]
                self._seen[name] = {topic_id}
        return True

    def _skip_gap(self, name: str, response: _Response, now_ms: int) -> None:
        """Exclude a long time without responses from the grace time, by moving the start of the grace time."""
        gap_ms = max(0, now_ms - response.last_ms - _MAX_GAP_MS)
        if gap_ms:
            response.first_ms += gap_ms
            for topic in [topic for topic in self._polled_since_ms if topic[0] == name]:
                self._polled_since_ms[topic] = min(now_ms, self._polled_since_ms[topic] + gap_ms)

    def _is_insisted_on(self, name: str, topic_id: str | None, now_ms: int) -> bool:
        """Return whether a response that seems outdated has been repeated for the whole grace time.

        Store the time of the first such response.
        """
        doubt = self._doubts.get(name)
        if doubt is None or doubt.topic_id != topic_id:
            doubt = self._doubts[name] = _Response(topic_id, now_ms, now_ms)
        return now_ms - doubt.first_ms >= self._grace_ms
