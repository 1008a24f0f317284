"""Selects the partitions whose log offsets can be requested: those with a leader.

Leaders are looked up first, so that no request waits for a partition without a leader. If a leader does not respond,
the leader of the partition is looked up again, after increasing pauses.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kafka import TopicPartition

from sharegroup.log_fields import LogFields
from sharegroup.types import is_topic_name

logger = logging.getLogger(__name__)

#: How long a failing topic is skipped, in ms: the first time, and the maximum. The time doubles with each failure.
FIRST_RETRY_MS, MAX_RETRY_MS = 250, 2_000
_NAMED_IN_LOG = 10


@dataclass
class _Trouble:
    """The partitions of a topic that have no leader, or whose leader does not respond, and when to retry them."""

    began_ms: int
    partitions: set[TopicPartition] = field(default_factory=set)
    logged: set[str] = field(default_factory=set)
    wait_ms: int = 0
    retry_at_ms: int = 0


class PartitionLeaders:
    """The leaders of partitions, and which partitions could not be queried.

    `look_up` returns the leader of each partition of the named topics; a partition without a leader is left out.
    """

    def __init__(self, look_up: Callable[[Collection[str]], Mapping[TopicPartition, int]]) -> None:
        self._look_up = look_up
        self._leaders: dict[TopicPartition, int] = {}
        self._troubles: dict[str, _Trouble] = {}

    def with_leader(
        self, wanted: Collection[TopicPartition], now_ms: int
    ) -> dict[tuple[str, int], list[TopicPartition]]:
        """Return the wanted partitions that have a leader, by (topic, id of the leader).

        Leaders that are not known are looked up first, except during the pause after a failure of the topic.
        """
        self._find([partition for partition in wanted if partition not in self._leaders], now_ms)
        found: dict[tuple[str, int], list[TopicPartition]] = {}
        for partition in sorted(wanted):
            if partition in self._leaders:
                found.setdefault((partition.topic, self._leaders[partition]), []).append(partition)
        return found

    def record_response(self, topic: str, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Record that the leaders returned the log offsets of these partitions, so they no longer count as failing.

        When no failing partition of the topic is left, the topic's next failure starts with the shortest pause again.
        """
        trouble = self._troubles.get(topic)
        if trouble is None:
            return
        trouble.partitions.difference_update(partitions)
        if not trouble.partitions:
            del self._troubles[topic]
            if trouble.logged:
                logger.warning(
                    "topic %(topic)s: log offsets are polled again after %(duration_s).1f s of failures",
                    LogFields(topic=topic, duration_s=(now_ms - trouble.began_ms) / 1000),
                )

    def record_no_response(self, topic: str, leader: int, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Record that a leader did not respond for these partitions; they are retried after a pause.

        For all partitions of this leader, the current leader is looked up again. Nothing is logged, because the client
        logs a broker that does not respond (`kafka_clients.connections.silent_brokers`).
        """
        self._leaders = {partition: led_by for partition, led_by in self._leaders.items() if led_by != leader}
        self._leave_alone(topic, partitions, "", now_ms)

    def discard_topics(self, topics: Collection[str]) -> None:
        if not topics:
            return
        self._leaders = {p: led_by for p, led_by in self._leaders.items() if p.topic not in topics}
        for topic in topics:
            self._troubles.pop(topic, None)

    def _find(self, missing: Collection[TopicPartition], now_ms: int) -> None:
        topics: dict[str, list[TopicPartition]] = {}
        for partition in sorted(missing):
            if self._is_due(partition.topic, now_ms):
                topics.setdefault(partition.topic, []).append(partition)
        if not topics:
            return
        found: Mapping[TopicPartition, int] = {}
        problem = ""
        try:
            found = self._look_up([topic for topic in topics if is_topic_name(topic)])
        except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
            problem = f"{type(error).__name__}: {error}"
        self._leaders |= found
        for topic, of_topic in topics.items():
            without = [partition for partition in of_topic if partition not in found]
            if without:
                self._leave_alone(topic, without, problem or _without_leader(without), now_ms)

    def _is_due(self, topic: str, now_ms: int) -> bool:
        return topic not in self._troubles or now_ms >= self._troubles[topic].retry_at_ms

    def _leave_alone(self, topic: str, partitions: Collection[TopicPartition], problem: str, now_ms: int) -> None:
        trouble = self._troubles.setdefault(topic, _Trouble(now_ms))
        trouble.partitions.update(partitions)
        trouble.wait_ms = min(2 * trouble.wait_ms or FIRST_RETRY_MS, MAX_RETRY_MS)
        trouble.retry_at_ms = now_ms + trouble.wait_ms
        if problem and problem not in trouble.logged:
            trouble.logged.add(problem)
            logger.warning(
                "topic %(topic)s: log offsets cannot be polled; retrying: %(error)s",
                LogFields(topic=topic, error=problem),
            )


def _without_leader(partitions: Collection[TopicPartition]) -> str:
    numbers = sorted(partition.partition for partition in partitions)
    more = f" and {len(numbers) - _NAMED_IN_LOG} more" if len(numbers) > _NAMED_IN_LOG else ""
    return f"no leader for partition {', '.join(map(str, numbers[:_NAMED_IN_LOG]))}{more}"
