"""The part of a source poll that queries the brokers: the offsets of logs, and deleted topics."""

from collections.abc import Collection

from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.logs.log_offset_queries import LogOffsetQueries
from sharegroup.job.logs.topic_identities import TopicIdentities
from sharegroup.job.planning.source_poll import SourcePoll
from sharegroup.types import SharePartitionKey


class LogChanges:
    """Polls the brokers for log offsets and deleted topics.

    `poll_ms` is the interval for logs from which a member waits for records. `idle_poll_ms` is the interval for all
    logs.
    """

    def __init__(self, topics: TopicIdentities, queries: LogOffsetQueries, poll_ms: int, idle_poll_ms: int) -> None:
        self._topics, self._queries = topics, queries
        self._interval_ms = {"waiting": poll_ms, "all": idle_poll_ms}
        self._polled_ms = {"waiting": 0, "all": 0}

    def poll(self, poll: SourcePoll) -> list[TopicIdPartition]:
        """Poll the brokers, update the source's state, and return the logs whose offsets have changed."""
        known = poll.known
        self._queries.discard_topics(known.pop_removed_topics())
        if self._topics.is_due(poll.now_ms):
            self._topics.poll([topic for topic in known.listing.topics if topic[1] not in known.gone], poll.now_ms)
        moved = self._fetch(poll)
        self._detect_deleted_topics(poll)
        return moved

    def _fetch(self, poll: SourcePoll) -> list[TopicIdPartition]:
        """Fetch the offsets of the logs that are due, and return the logs whose offsets have changed.

        A new share-partition may start at the current start or end of its log. Offsets that were fetched earlier for
        other groups may be old, so both offsets of its log are requested until its leader responds.
        """
        known = poll.known
        is_idle = self._is_due("all", poll.now_ms)
        begun = set(map(TopicIdPartition.for_key, poll.added))
        wanted = begun | (set(known.listing.logs) if is_idle else self._due_logs(poll))
        wanted = {log for log in wanted if log.topic_id not in known.gone}
        if not wanted:
            return []
        known.logs.mark_stale(begun & wanted)
        committed = {topic for topic in {log.topic for log in wanted} if known.is_read_committed(topic)}
        whole = wanted if is_idle else known.logs.unknown
        responses = self._queries.fetch_log_offsets(known.logs.offsets, wanted, committed, whole, poll.now_ms)
        return known.logs.update(responses)

    def _due_logs(self, poll: SourcePoll) -> set[TopicIdPartition]:
        """Return the logs whose offsets are requested in a poll that does not request those of all logs.

        - Logs whose offsets are not known.
        - Logs that unread requests concern.
        - Logs of groups whose config has changed, because `share.isolation.level` may have changed.
        - Logs from which members wait for records, if `poll_ms` have passed since these were last returned.
        """
        listing = poll.known.listing
        wanted = set(poll.known.logs.unknown)
        for topic_id in poll.requested:
            wanted.update(listing.logs_of(topic_id))
        for group_id in poll.reconfigured:
            wanted.update(listing.logs_of_group(group_id))
        for shard_key in poll.handover.waiting if self._is_due("waiting", poll.now_ms) else ():
            wanted.update(listing.logs_of_group(*ShardKey.decode(shard_key)[:2]))
        return wanted

    def _is_due(self, what: str, now_ms: int) -> bool:
        due = now_ms - self._polled_ms[what] >= self._interval_ms[what]
        if due:
            self._polled_ms[what] = now_ms
        return due

    def _detect_deleted_topics(self, poll: SourcePoll) -> None:
        """Detect deleted topics, and report the deletion to the shards of each topic's share-partitions.

        It is reported once for each share-partition, also for one that is added later. A reported share-partition is no
        longer managed.
        """
        known, listing = poll.known, poll.known.listing
        names = self._topics.pop_updated_names() | {key.topic for key in poll.added}
        for name in sorted(names):
            for topic_id in sorted(listing.ids_of(name)):
                is_new = topic_id not in known.gone
                if is_new and not self._topics.is_gone(name, topic_id):
                    continue
                if is_new:
                    known.mark_topic_deleted(topic_id)
                of_topic = {key for log in listing.logs_of(topic_id) for key in listing.keys_of(log)}
                _add_deleted_topic(poll, name, topic_id, of_topic if is_new else of_topic & poll.added)


def _add_deleted_topic(poll: SourcePoll, name: str, topic_id: str, keys: Collection[SharePartitionKey]) -> None:
    known, sent = poll.known, poll.known.gone[topic_id]
    unsent = [row for row in known.listing.manageable_rows(keys) if sent.get(row.key) != row.state_epoch]
    for row in unsent:
        sent[row.key] = row.state_epoch
        known.managed.remove(row.key)
        known.waiting.pop(row.key, None)
        poll.pending.pop(row.key, None)
    poll.batch.add_deleted_topic(name, {known.managed.shard_key(row.key) for row in unsent})
