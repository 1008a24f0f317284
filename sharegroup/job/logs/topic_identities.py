"""Which topics are no more: those whose name stands for another topic now, or for none.

A topic is its id, Kafka says: made again under its name it is another topic, with another log. Offsets are asked for by
name, so a name's offsets count only for the topic that it stands for, by the newest answer.

A wrong conclusion would delete a group's state, so nothing is concluded from silence, nor from one answer of one
broker, whose metadata may be behind:

    the name stands for no topic       after the grace time, during which all answers said so
    it stands for another topic now    after two seconds, during which all answers said so
    it stands for another topic, and   after the grace time, as the answers may be those that are behind
    never stood for this one
    it stands for one that is no more  that answer is behind, and counts for nothing for the grace time

The grace time begins anew for each topic that is asked for: what was answered before is about another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition

from sharegroup.types import is_topic_name

logger = logging.getLogger(__name__)

#: How often names are looked up, and how soon again while one does not stand for what it should.
LOOK_MS, CONFIRM_MS = 3_000, 2_000
#: A look-up that fails is done again later and later, up to this.
_MAX_RETRY_MS = 30_000
#: Ids of a name that are remembered.
_MAX_IDS = 16


class TopicDescription(NamedTuple):
    """What a broker knows of a topic: its id ("" where the brokers have none), and who leads its partitions."""

    topic_id: str
    leaders: Mapping[int, int]


Describe = Callable[[Collection[str]], Mapping[str, TopicDescription | None]]


@dataclass
class _Answer:
    """What a name stands for (None: no topic), and when this was said first and last, with nothing else between."""

    topic_id: str | None
    first_ms: int
    last_ms: int


class TopicIdentities:
    """Compares what names stand for now with what they stood for. `describe` gives each topic, None for one that is not
    there; a name that it leaves out is not told. `grace_ms` is the config `topic.deletion.grace.ms`."""

    def __init__(self, describe: Describe, grace_ms: int) -> None:
        self._describe = describe
        self._grace_ms = grace_ms
        self._asked: dict[tuple[str, str], int] = {}
        self._answers: dict[str, _Answer] = {}
        self._seen: dict[str, set[str]] = {}
        self._replaced: dict[str, list[str]] = {}
        self._doubts: dict[str, _Answer] = {}
        self._learned: set[str] = set()
        self._due_ms = 0
        self._retry_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to `look`."""
        return now_ms >= self._due_ms

    def look(self, topics: Collection[tuple[str, str]], now_ms: int) -> None:
        """Look these (name, id) up, if it is time to; they are all that anybody asks for from then on."""
        if not self.is_due(now_ms):
            return
        self._asked = {topic: self._asked.get(topic, now_ms) for topic in topics}
        names = sorted({name for name, _ in topics if is_topic_name(name)})
        if not names:
            return
        if not self.look_now(names, now_ms):
            self._retry_ms = min(2 * self._retry_ms or LOOK_MS, _MAX_RETRY_MS)
            self._due_ms = now_ms + self._retry_ms
            return
        self._retry_ms = 0
        doubtful = any(name in self._answers and not self.stands_for(name, topic_id) for name, topic_id in topics)
        self._due_ms = now_ms + (CONFIRM_MS // 2 if doubtful else LOOK_MS)

    def look_now(self, names: Collection[str], now_ms: int) -> bool:
        """Look names up, whenever that was done last; whether there was an answer."""
        try:
            self._look_up(sorted(names), now_ms)
        except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
            logger.debug("topics cannot be looked up: %s", error)
            return False
        return True

    def describe(self, names: Collection[str], now_ms: int) -> dict[TopicPartition, int]:
        """Look names up now: the leader of each partition that has one. Raises what the look-up raises."""
        return {
            TopicPartition(name, partition): leader
            for name, described in self._look_up(names, now_ms)
            for partition, leader in described.leaders.items()
        }

    def has_id(self, name: str) -> bool:
        """Whether topics of the name have ids: not only where a broker told of one that has none.

        While the name stands for no topic, nothing was said of that; the next one's log would be taken for a new one.
        """
        answer = self._answers.get(name)
        return answer is None or answer.topic_id != ""

    def stands_for(self, name: str, topic_id: str) -> bool:
        """Whether the name stands for this topic; without ids there is nothing that could tell it from another."""
        return name in self._answers and self._answers[name].topic_id in (topic_id, "")

    def is_gone(self, name: str, topic_id: str) -> bool:
        """Whether the topic is no more."""
        answer = self._answers.get(name)
        if answer is None or self.stands_for(name, topic_id):
            return False
        since_ms = max(answer.first_ms, self._asked.get((name, topic_id), answer.last_ms))
        return topic_id in self._replaced.get(name, ()) or answer.last_ms - since_ms >= self._grace_ms

    def take_learned(self) -> set[str]:
        """The names that something was answered for since this was asked last: only their topics can be gone since."""
        learned, self._learned = self._learned, set()
        return learned

    def forget(self, names: Collection[str]) -> None:
        """Nobody asks for topics of these names any more."""
        for remembered in (self._answers, self._seen, self._replaced, self._doubts):
            for name in names:
                remembered.pop(name, None)
        self._learned.difference_update(names)

    def _look_up(self, names: Collection[str], now_ms: int) -> list[tuple[str, TopicDescription]]:
        """The topics that names stand for now, but for answers that are behind."""
        return [
            (name, described)
            for name, described in self._describe(names).items()
            if self._learn(name, None if described is None else described.topic_id, now_ms) and described is not None
        ]

    def _learn(self, name: str, topic_id: str | None, now_ms: int) -> bool:
        """Take an answer in; False for one that is behind."""
        self._learned.add(name)
        if topic_id in self._replaced.get(name, ()) and not self._is_insisted_on(name, topic_id, now_ms):
            return False
        doubt = self._doubts.pop(name, None)
        answer = self._answers.get(name)
        if answer is None or answer.topic_id != topic_id:
            first_ms = doubt.first_ms if doubt is not None and doubt.topic_id == topic_id else now_ms
            answer = self._answers[name] = _Answer(topic_id, first_ms, now_ms)
        answer.last_ms = now_ms
        if topic_id:
            seen = self._seen.setdefault(name, set())
            seen.add(topic_id)
            if answer.last_ms - answer.first_ms >= min(CONFIRM_MS, self._grace_ms):
                others = [other for other in self._replaced.get(name, []) if other != topic_id]
                self._replaced[name] = [*others, *sorted(seen - {topic_id})][-_MAX_IDS:]
                self._seen[name] = {topic_id}
        return True

    def _is_insisted_on(self, name: str, topic_id: str | None, now_ms: int) -> bool:
        """Whether nothing else than this, which seemed to be behind, was answered for the grace time."""
        doubt = self._doubts.get(name)
        if doubt is None or doubt.topic_id != topic_id:
            doubt = self._doubts[name] = _Answer(topic_id, now_ms, now_ms)
        return now_ms - doubt.first_ms >= self._grace_ms
