"""What the leaders of logs answer. An answer counts only if the name stood for the same topic before and after it.

All leaders are asked in one call. A leader that does not answer costs only its own partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from kafka import TopicPartition

from sharegroup.core.operators.log_offsets import LogOffsets
from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.logs.partition_leaders import PartitionLeaders
from sharegroup.job.logs.topic_identities import TopicDescription, TopicIdentities

logger = logging.getLogger(__name__)

_Found = TypeVar("_Found")


class Logs(Protocol):
    """The brokers: see `LogPoll`. Partitions whose leaders do not answer are left out; an exception means that nobody
    answered."""

    def describe(self, topics: Collection[str]) -> Mapping[str, TopicDescription | None]:
        """Each topic; None for one that does not exist. A topic of which nothing is known is left out."""

    def ends(
        self, partitions: Collection[TopicPartition], read_committed: bool = False
    ) -> Mapping[TopicPartition, int]:
        """Log end offsets, or last stable offsets."""

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Log start offsets."""

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The epochs of the leaders that gave the newest ends, where they said so."""

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Up to which offset each log was written under leaders up to an epoch."""

    def at_time(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """The first offset at or after a time (ms), None where there is none."""

    def forget(self, topics: Collection[str]) -> None:
        """Nobody asks for these topics any more."""


class LogAnswers:
    """Asks leaders, and remembers which of them did not answer. `topics` says what names stand for."""

    def __init__(self, logs: Logs, topics: TopicIdentities) -> None:
        self._logs, self._topics = logs, topics
        self._now_ms = 0
        self._leaders = PartitionLeaders(lambda names: self._topics.describe(names, self._now_ms))

    def log_offsets(
        self,
        known: Mapping[TopicIdPartition, LogOffsets],
        wanted: Collection[TopicIdPartition],
        committed: Collection[str],
        whole: Collection[TopicIdPartition],
        now_ms: int,
    ) -> dict[TopicIdPartition, LogOffsets]:
        """How far the wanted logs reach, where that is answered for the topics that the names stand for.

        `known` is what was known before, of these and others. `committed` are the names of topics that are asked for
        their last stable offsets as well. Logs are asked for their starts if they are in `whole`, or were not known.
        """
        logs: dict[TopicPartition, list[TopicIdPartition]] = {}
        for log in wanted:
            logs.setdefault(log.topic_partition, []).append(log)
        before: dict[TopicPartition, LogOffsets] = {}
        from_start = {log.topic_partition for log in whole}

        def ask(partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
            before.update(self._known(known, {p: logs[p] for p in partitions}))
            ends, epochs = self._ends(partitions, before)
            # A log whose end has fallen may be another one, with a start of its own.
            asked = [p for p in ends if p in from_start or p not in before or ends[p] < before[p].log_end_offset]
            starts = {p: before[p].log_start_offset for p in ends if p in before and p not in asked}
            starts |= self._logs.starts(asked)
            of_committed = [p for p in ends if p.topic in committed]
            stable = self._logs.ends(of_committed, read_committed=True) if of_committed else {}
            return {
                p: LogOffsets(starts[p], ends[p], stable.get(p), self._topics.has_id(p.topic), *epochs.get(p, ()))
                for p in ends
                if p in starts and (p in stable or p.topic not in committed)
            }

        found = self._ask(logs, ask, now_ms)
        # Made again between two looks, a topic may soon have more records than the one before: what is news is believed
        # if the name stands for the same topic afterwards.
        changed = {p.topic for p, offsets in found.items() if before.get(p) != offsets}
        if changed and not self._topics.look_now(changed, now_ms):
            found = {p: offsets for p, offsets in found.items() if p.topic not in changed}
        # A name that had stood for no topic when they were asked for stands for this one since they were.
        return {
            log: found[log.topic_partition]._replace(has_topic_id=self._topics.has_id(log.topic))
            for log in wanted
            if log.topic_partition in found and self._topics.stands_for(log.topic, log.topic_id)
        }

    def forget(self, topics: Collection[str]) -> None:
        """Nobody asks for these topics any more."""
        self._leaders.forget(topics)
        self._topics.forget(topics)
        if topics:
            self._logs.forget(topics)

    def offsets_at(
        self, partitions: Collection[TopicPartition], time_ms: int, now_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, where that is answered; None where there is no such record."""

        def ask(of_leader: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
            return self._logs.at_time(dict.fromkeys(of_leader, time_ms))

        return self._ask(partitions, ask, now_ms)

    def _ends(
        self, partitions: Collection[TopicPartition], before: Mapping[TopicPartition, LogOffsets]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, tuple[int, int | None]]]:
        """The ends of logs; and the leader's epoch of each, with the offset from which on it and others wrote that were
        elected since the answer before.

        An end is left out if it is of an earlier leader, who does not know yet that another one was elected.
        """
        ends = dict(self._logs.ends(partitions))
        with_ids = [p for p in ends if self._topics.has_id(p.topic)]
        epochs = {p: epoch for p, epoch in self._logs.leader_epochs(with_ids).items() if epoch >= 0}
        known = {p: (before[p].leader_epoch, before[p].epoch_start) for p in epochs if p in before}
        for partition, (epoch, _) in known.items():
            if epochs[partition] < epoch:
                del ends[partition], epochs[partition]
        # Who knows nothing of before asks where the last leader began.
        asked = {p: known.get(p, (epoch - 1, None))[0] for p, epoch in epochs.items()}
        asked = {p: epoch for p, epoch in asked.items() if 0 <= epoch < epochs[p]}
        starts = self._logs.epoch_ends(asked) if asked else {}
        found: dict[TopicPartition, tuple[int, int | None]] = {}
        for partition, epoch in epochs.items():
            if partition in starts:
                found[partition] = epoch, starts[partition]
            elif partition in asked and partition in known:
                found[partition] = known[partition]  # it is asked again
            else:
                found[partition] = epoch, known.get(partition, (epoch, None))[1]
        return ends, found

    def _known(
        self, known: Mapping[TopicIdPartition, LogOffsets], asked: Mapping[TopicPartition, Collection[TopicIdPartition]]
    ) -> dict[TopicPartition, LogOffsets]:
        """What was known so far of the logs of the topics that the names stand for."""
        return {
            partition: known[log]
            for partition, logs in asked.items()
            for log in logs
            if log in known and self._topics.stands_for(log.topic, log.topic_id)
        }

    def _ask(
        self,
        partitions: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, _Found]],
        now_ms: int,
    ) -> dict[TopicPartition, _Found]:
        """What those answer that have a leader; the others are tried again later."""
        self._now_ms = now_ms
        askable = self._leaders.askable(partitions, now_ms)
        if not askable:
            return {}
        found: Mapping[TopicPartition, _Found] = {}
        try:
            found = ask([partition for of_leader in askable.values() for partition in of_leader])
        except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
            logger.debug("log offsets cannot be polled: %s: %s", type(error).__name__, error)
        for (topic, leader), of_leader in askable.items():
            answered = [partition for partition in of_leader if partition in found]
            self._leaders.answered(topic, answered, now_ms)
            if len(answered) < len(of_leader):
                self._leaders.unanswered(topic, leader, set(of_leader) - set(answered), now_ms)
        return dict(found)
