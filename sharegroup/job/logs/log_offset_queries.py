"""Requests log offsets from the leaders of partitions.

Offsets are requested by topic name. A response counts only if the name referred to the same topic before the request
and after the response. All leaders are queried in one call. If a leader does not respond, only its own partitions are
left out.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from kafka import TopicPartition

from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.logs.partition_leaders import PartitionLeaders
from sharegroup.job.logs.topic_identities import TopicDescription, TopicIdentities
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

_Found = TypeVar("_Found")


class Logs(Protocol):
    """The interface to the logs at the brokers, implemented by `LogPoll`.

    Partitions whose leaders do not respond are left out. An exception means that no broker responded.
    """

    def describe(self, topics: Collection[str]) -> Mapping[str, TopicDescription | None]:
        """Describe topics; a topic that does not exist maps to None. Topics without a usable response are left out."""

    def ends(
        self, partitions: Collection[TopicPartition], read_committed: bool = False
    ) -> Mapping[TopicPartition, int]:
        """Return log end offsets, or last stable offsets if `read_committed` is True."""

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return log start offsets."""

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return, for each log, the epoch of the leader that reported its newest end offset.

        Unknown epochs are left out.
        """

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return, for each log, the end offset of the given leader epoch, as OffsetForLeaderEpoch does."""

    def at_time(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """Return, for each log, the offset of the first record whose timestamp is the given time (ms) or later.

        The offset is None if there is no such record.
        """

    def forget(self, topics: Collection[str]) -> None:
        """Discard the stored data of topics whose offsets are no longer requested."""


class LogOffsetQueries:
    """Queries the leaders of partitions, and stores which did not respond. `topics` maps topic names to topic ids."""

    def __init__(self, logs: Logs, topics: TopicIdentities) -> None:
        self._logs, self._topics = logs, topics
        self._now_ms = 0
        self._leaders = PartitionLeaders(lambda names: self._topics.describe(names, self._now_ms))

    def fetch_log_offsets(
        self,
        known: Mapping[TopicIdPartition, PartitionLog],
        wanted: Collection[TopicIdPartition],
        committed: Collection[str],
        whole: Collection[TopicIdPartition],
        now_ms: int,
    ) -> dict[TopicIdPartition, PartitionLog]:
        """Return the offsets of the wanted logs.

        A log is left out if its leader does not respond, or if its topic was deleted or created again under its name.

        `known` has the previous offsets, of these and other logs. `committed` names the topics whose last stable
        offsets are requested as well. Start offsets are requested for logs in `whole`, for logs without previous
        offsets, and for logs whose end offset has decreased.
        """
        logs: dict[TopicPartition, list[TopicIdPartition]] = {}
        for log in wanted:
            logs.setdefault(log.topic_partition, []).append(log)
        before: dict[TopicPartition, PartitionLog] = {}
        from_start = {log.topic_partition for log in whole}

        def query(partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionLog]:
            before.update(self._known(known, {p: logs[p] for p in partitions}))
            ends, epochs = self._ends(partitions, before)
            # A log whose end offset has fallen may be a new one, with another start offset.
            asked = [p for p in ends if p in from_start or p not in before or ends[p] < before[p].log_end_offset]
            starts = {p: before[p].log_start_offset for p in ends if p in before and p not in asked}
            starts |= self._logs.starts(asked)
            of_committed = [p for p in ends if p.topic in committed]
            stable = self._logs.ends(of_committed, read_committed=True) if of_committed else {}
            return {
                p: PartitionLog(starts[p], ends[p], stable.get(p), self._topics.has_id(p.topic), *epochs.get(p, ()))
                for p in ends
                if p in starts and (p in stable or p.topic not in committed)
            }

        found = self._query(logs, query, now_ms)
        # A topic that was recreated between two polls may soon have more records than the previous one. Changed offsets
        # are accepted only if the name refers to the same topic after the response.
        changed = {p.topic for p, offsets in found.items() if before.get(p) != offsets}
        if changed and not self._topics.poll_now(changed, now_ms):
            found = {p: offsets for p, offsets in found.items() if p.topic not in changed}
        # A name that referred to no topic before the request may refer to this one now.
        return {
            log: found[log.topic_partition]._replace(has_topic_id=self._topics.has_id(log.topic))
            for log in wanted
            if log.topic_partition in found and self._topics.stands_for(log.topic, log.topic_id)
        }

    def discard_topics(self, topics: Collection[str]) -> None:
        """Discard the stored data of topics whose offsets are no longer requested."""
        self._leaders.discard_topics(topics)
        self._topics.discard_names(topics)
        if topics:
            self._logs.forget(topics)

    def fetch_offsets_at(
        self, partitions: Collection[TopicPartition], time_ms: int, now_ms: int
    ) -> dict[TopicPartition, int | None]:
        """Return {log: offset of the first record whose timestamp is `time_ms` or later; None if there is none}.

        Logs without a response are left out.
        """

        def query(of_leader: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
            return self._logs.at_time(dict.fromkeys(of_leader, time_ms))

        return self._query(partitions, query, now_ms)

    def _ends(
        self, partitions: Collection[TopicPartition], before: Mapping[TopicPartition, PartitionLog]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, tuple[int, int | None]]]:
        """Return the end offsets of logs, and the (leader_epoch, epoch_start) of each log as in `PartitionLog`.

        `epoch_start` is the first offset that was written by leaders elected after the previous response. An end offset
        is left out if it comes from an earlier leader that is not yet aware of the election.
        """
        ends = dict(self._logs.ends(partitions))
        with_ids = [p for p in ends if self._topics.has_id(p.topic)]
        epochs = {p: epoch for p, epoch in self._logs.leader_epochs(with_ids).items() if epoch >= 0}
        known = {p: (before[p].leader_epoch, before[p].epoch_start) for p in epochs if p in before}
        for partition, (epoch, _) in known.items():
            if epochs[partition] < epoch:
                del ends[partition], epochs[partition]
        # Without a previous response, ask where the last leader began.
        asked = {p: known.get(p, (epoch - 1, None))[0] for p, epoch in epochs.items()}
        asked = {p: epoch for p, epoch in asked.items() if 0 <= epoch < epochs[p]}
        starts = self._logs.epoch_ends(asked) if asked else {}
        found: dict[TopicPartition, tuple[int, int | None]] = {}
        for partition, epoch in epochs.items():
            if partition in starts:
                found[partition] = epoch, starts[partition]
            elif partition in asked and partition in known:
                found[partition] = known[partition]  # the next poll requests it again
            else:
                found[partition] = epoch, known.get(partition, (epoch, None))[1]
        return ends, found

    def _known(
        self,
        known: Mapping[TopicIdPartition, PartitionLog],
        asked: Mapping[TopicPartition, Collection[TopicIdPartition]],
    ) -> dict[TopicPartition, PartitionLog]:
        """Return the previous offsets of the logs whose names still refer to the same topic."""
        return {
            partition: known[log]
            for partition, logs in asked.items()
            for log in logs
            if log in known and self._topics.stands_for(log.topic, log.topic_id)
        }

    def _query(
        self,
        partitions: Collection[TopicPartition],
        query: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, _Found]],
        now_ms: int,
    ) -> dict[TopicPartition, _Found]:
        """Query the partitions that have a leader. Partitions without a leader or a response are tried again later."""
        self._now_ms = now_ms
        askable = self._leaders.with_leader(partitions, now_ms)
        if not askable:
            return {}
        found: Mapping[TopicPartition, _Found] = {}
        try:
            found = query([partition for of_leader in askable.values() for partition in of_leader])
        except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
            logger.debug(
                "cannot poll log offsets: %(detail)s: %(error)s", LogFields(detail=type(error).__name__, error=error)
            )
        for (topic, leader), of_leader in askable.items():
            answered = [partition for partition in of_leader if partition in found]
            self._leaders.record_response(topic, answered, now_ms)
            if len(answered) < len(of_leader):
                self._leaders.record_no_response(topic, leader, set(of_leader) - set(answered), now_ms)
        return dict(found)
