"""The part of a source poll that queries the brokers: the offsets of logs, and deleted topics."""

from __future__ import annotations

from collections.abc import Collection

from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.logs.log_answers import LogAnswers
from sharegroup.job.logs.topic_identities import TopicIdentities
from sharegroup.job.planning.source_look import SourceLook
from sharegroup.types import SharePartitionKey


class LogNews:
    """Polls the logs that are due. `poll_ms` is the interval for logs that a member waits for, `idle_poll_ms` the
    interval for all logs."""

    def __init__(self, topics: TopicIdentities, answers: LogAnswers, poll_ms: int, idle_poll_ms: int) -> None:
        self._topics, self._answers = topics, answers
        self._interval_ms = {"waiting": poll_ms, "all": idle_poll_ms}
        self._asked_ms = {"waiting": 0, "all": 0}

    def take(self, look: SourceLook) -> list[TopicIdPartition]:
        """Poll the brokers, update the source's state, and return the logs whose offsets have changed."""
        known = look.known
        self._answers.forget(known.take_left())
        if self._topics.is_due(look.now_ms):
            self._topics.look([topic for topic in known.listing.topics if topic[1] not in known.gone], look.now_ms)
        moved = self._ask(look)
        self._lose_topics(look)
        return moved

    def _ask(self, look: SourceLook) -> list[TopicIdPartition]:
        """Fetch the offsets of the logs that are due.

        A new share-partition starts at the current end or start of its log, even if others already read the topic.
        Both offsets of its log are therefore requested until its leader responds.
        """
        known = look.known
        is_idle = self._is_due("all", look.now_ms)
        begun = set(map(TopicIdPartition.of, look.begun))
        wanted = begun | (set(known.listing.logs) if is_idle else self._asked_for(look))
        wanted = {log for log in wanted if log.topic_id not in known.gone}
        if not wanted:
            return []
        known.logs.want_anew(begun & wanted)
        committed = {topic for topic in {log.topic for log in wanted} if known.is_read_committed(topic)}
        whole = wanted if is_idle else known.logs.unknown
        answers = self._answers.log_offsets(known.logs.offsets, wanted, committed, whole, look.now_ms)
        return known.logs.learn(answers)

    def _asked_for(self, look: SourceLook) -> set[TopicIdPartition]:
        """Return the logs to request between the idle polls.

        These are unknown logs, logs that requests concern or members wait for, and logs of groups whose config
        changed, because such a group may need the other end offset.
        """
        listing = look.known.listing
        wanted = set(look.known.logs.unknown)
        for topic_id in look.requested:
            wanted.update(listing.logs_of(topic_id))
        for group_id in look.reconfigured:
            wanted.update(listing.logs_of_group(group_id))
        for shard_key in look.told.waiting if self._is_due("waiting", look.now_ms) else ():
            wanted.update(listing.logs_of_group(*ShardKey.decode(shard_key)[:2]))
        return wanted

    def _is_due(self, what: str, now_ms: int) -> bool:
        due = now_ms - self._asked_ms[what] >= self._interval_ms[what]
        if due:
            self._asked_ms[what] = now_ms
        return due

    def _lose_topics(self, look: SourceLook) -> None:
        """Send deleted topics to their shards: once, and again when a share-partition is listed again."""
        known, listing = look.known, look.known.listing
        names = self._topics.take_learned() | {key.topic for key in look.begun}
        for name in sorted(names):
            for topic_id in sorted(listing.ids_of(name)):
                is_news = topic_id not in known.gone
                if is_news and not self._topics.is_gone(name, topic_id):
                    continue
                if is_news:
                    known.lose(topic_id)
                of_topic = {key for log in listing.logs_of(topic_id) for key in listing.keys_of(log)}
                _tell_gone(look, name, topic_id, of_topic if is_news else of_topic & look.begun)


def _tell_gone(look: SourceLook, name: str, topic_id: str, keys: Collection[SharePartitionKey]) -> None:
    known, told = look.known, look.known.gone[topic_id]
    news = [row for row in known.listing.to_lead(keys) if told.get(row.key) != row.state_epoch]
    for row in news:
        told[row.key] = row.state_epoch
        known.led.leave(row.key)
        known.waiting.pop(row.key, None)
        look.pending.pop(row.key, None)
    look.batch.gone(name, {known.led.shard_key(row.key) for row in news})
