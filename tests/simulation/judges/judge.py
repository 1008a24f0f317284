"""The judge: it checks from outside, with what clients sent and received, whether README's promises were kept.

Clients report to the judge what they send before they send it, and each response when they read it. The judge therefore
knows less than the job at any moment, and accepts everything that can be right. Its rules while clients run:

- a record whose acceptance (or rejection) had an OK response is never delivered again;
- the delivery count of a record differs in each delivery and never exceeds the limit;
- no member gets a record that another one holds within its lock, and a lock lasts as long as the group's config says;
- an acknowledgement counts if it arrives within its lock and session, and is rejected if it arrives after its lock or
  is for an older delivery;
- no member gets a record that is not in the log.

If brokers' clocks differ, both responses are right for the time of that difference around the end of a lock.

The promise of `DeltaSink` is checked in `sink_judge`, the final checks against the tables are in `last_judgement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import SimulatedKafka, Topic
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

#: By this time the job has detected that a name belongs to another topic, however long the topic was missing.
_NAMES_AGREE_MS = 500_000
_FINISHING = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Key(NamedTuple):
    """A share-partition. The topic's id identifies it; the name is for readers."""

    group_id: str
    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id} {self.topic}-{self.partition}"


class Violation(NamedTuple):
    """A broken promise; `about` is the share-partition, if the promise is about one."""

    time_ms: int
    rule: str
    text: str
    about: str


@dataclass(frozen=True)
class _Delivery:
    count: int
    member: str
    response_id: str


class Grant(NamedTuple):
    """Records that a member holds, and the end of the hold; `generation` is the member's at that time."""

    member: str
    generation: int
    deadline_ms: int


@dataclass
class _Story:
    """The known history of one record in its share-partition's present life."""

    deliveries: list[_Delivery] = field(default_factory=list)
    hold: Grant | None = None
    finished: tuple[int, AcknowledgeType] | None = None

    def was_delivered(self, member_id: str, count: int) -> bool:
        """Return whether the member has received it with that delivery count."""
        return any(old.member == member_id and old.count == count for old in self.deliveries)


@dataclass
class _Member:
    """A member; `generation` increases when the records that it held may have been revoked legitimately."""

    session_ms: int
    heartbeat_ms: int
    generation: int = 0
    left: bool = False


class ConfigChange:
    """A request to set configs of a group; `answered_ms` and `ok` are None until its response."""

    def __init__(self, sent_ms: int, configs: Mapping[str, str | None]) -> None:
        self.sent_ms, self.configs = sent_ms, configs
        self.answered_ms: int | None = None
        self.ok: bool | None = None


@dataclass
class _Life:
    """A share-partition from one beginning to the next; the begin was reported at `begun_ms`."""

    stories: dict[int, _Story] = field(default_factory=dict)
    begun_ms: int = 0
    #: An administrator's request that would reset it is in progress or has an unknown outcome.
    is_asked: bool = False
    is_unknown: bool = False

    @property
    def in_question(self) -> bool:
        """Return whether it may have been reset unnoticed; nothing is checked then."""
        return self.is_asked or self.is_unknown


class Judge:
    """The collector of all that clients sent and received. `violations` are all broken promises, in order."""

    def __init__(self, clock: Scheduler, trace: Trace, kafka: SimulatedKafka) -> None:
        self._clock, self._trace, self._kafka = clock, trace, kafka
        self.violations: list[Violation] = []
        self._lives: dict[Key, _Life] = {}
        self._members: dict[tuple[str, str], _Member] = {}
        self.configs: dict[str, list[ConfigChange]] = {}
        #: The first time at which a share-partition's topic was requested, by (group, topic id).
        self.wanted_ms: dict[tuple[str, str], int] = {}
        self._wanted_before: dict[tuple[str, str], int] = {}
        self._altered: set[tuple[str, str, int]] = set()
        self.count_limit = 10
        self.deliveries = self.acknowledged = 0

    def violate(self, rule: str, text: str, about: Key | str = "") -> None:
        """Record a broken promise; once for each rule and share-partition."""
        told = str(about)
        if any(known.rule == rule and known.about == told for known in self.violations):
            return
        self.violations.append(Violation(self._clock.now_ms, rule, text, told))
        self._trace.add("judge", f"VIOLATION {rule}: {text}", *([told] if told else []))

    # -- members ---------------------------------------------------------------------------------------------------

    def wants(self, group_id: str, topic_ids: Iterable[str]) -> None:
        """Report a heartbeat with these topics that is about to be sent."""
        for topic_id in topic_ids:
            self.wanted_ms.setdefault((group_id, topic_id), self._clock.now_ms)

    def heartbeat_appended(self, group_id: str, member_id: str, append_ms: int, session_ms: int) -> None:
        """Report a heartbeat in the log, according to the member's response."""
        member = self._members.setdefault((group_id, member_id), _Member(session_ms, append_ms))
        if append_ms - member.heartbeat_ms >= member.session_ms or member.left:
            member.generation += 1
        member.left = False
        member.session_ms = session_ms
        member.heartbeat_ms = max(member.heartbeat_ms, append_ms)

    def session_over(self, group_id: str, member_id: str) -> None:
        """Report that the member leaves, ends its session, or is unknown, so that its records may be released."""
        member = self._members.setdefault((group_id, member_id), _Member(0, self._clock.now_ms))
        member.generation += 1
        member.left = True

    def _holds(self, key: Key, hold: Grant) -> bool:
        member = self._members.get((key.group_id, hold.member))
        return (
            member is not None
            and member.generation == hold.generation
            and not member.left
            and self._surely_later_ms < min(hold.deadline_ms, member.heartbeat_ms + member.session_ms)
        )

    @property
    def _surely_later_ms(self) -> int:
        """Return a time that no broker's clock and no client's lock duration has reached yet."""
        return self._clock.now_ms + self._kafka.most_behind_ms

    # -- records ---------------------------------------------------------------------------------------------------

    def delivered(
        self,
        member_id: str,
        key: Key,
        acquired: Iterable[AcquiredRange],
        deadline_ms: int,
        response_id: str,
        granted: Grant | None = None,
    ) -> None:
        """Report records of a response when the member reads it; a duplicate response is reported once.

        A member that waits before reading passes its grant of the earlier time.
        """
        life = self._lives.setdefault(key, _Life())
        # Records of an earlier life may be read in this one.
        if self.is_in_question(key) or deadline_ms <= life.begun_ms:
            return
        hold = granted or self.grant(key.group_id, member_id, deadline_ms)
        for first, last, count in acquired:
            self.deliveries += last - first + 1
            self._check_log(key, first, last)
            if count > self.count_limit:
                self.violate("count above limit", f"{first}..{last} delivered with count {count}", key)
            for offset in range(first, last + 1):
                story = life.stories.setdefault(offset, _Story())
                self._check_delivery(key, offset, story, _Delivery(count, member_id, response_id))
                story.deliveries.append(_Delivery(count, member_id, response_id))
                story.hold = hold

    def is_whole_lock(self, key: Key, deadline_ms: int, fetched_ms: int, duration_ms: int) -> None:
        """Check that the locks of a fetch sent at `fetched_ms` last for `duration_ms` from then on."""
        missing_ms = fetched_ms - self._kafka.most_behind_ms + duration_ms - deadline_ms
        if missing_ms > 0:
            self.violate("a lock is as long as configured", f"{missing_ms} ms of {duration_ms} are missing", key)

    def was_delivered(self, key: Key, offset: int) -> bool:
        """Return whether a member received the record in the share-partition's present life."""
        return self.first_receiver(key, offset) is not None

    def first_receiver(self, key: Key, offset: int) -> str | None:
        """Return the member that first received the record in the share-partition's present life."""
        life = self._lives.get(key)
        story = life.stories.get(offset) if life is not None else None
        return story.deliveries[0].member if story is not None and story.deliveries else None

    def _check_log(self, key: Key, first: int, last: int) -> None:
        topic = self._kafka.topic_by_id(key.topic_id) or self._kafka.deleted.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            self.violate("no such log", f"{first}..{last} delivered of topic id {key.topic_id}", key)
        else:
            end = self._end_of(topic, key.partition)
            if last >= end:
                self.violate("beyond the log", f"{first}..{last} delivered, the log ends at {end}", key)

    def _end_of(self, topic: Topic, partition: int) -> int:
        """Return the log end. It is queried by name, so for a deleted topic it may be that of the next one."""
        log = topic.partitions[partition]
        end = max(log.log_end_offset, log.lost_end)
        if topic.deleted_ms is None or self._clock.now_ms - topic.deleted_ms >= _NAMES_AGREE_MS:
            return end
        nexts = (next_one.partitions[partition : partition + 1] for next_one in self._kafka.after(topic))
        return max([end, *(log.log_end_offset for logs in nexts for log in logs)])

    def _check_delivery(self, key: Key, offset: int, story: _Story, new: _Delivery) -> None:
        if story.finished is not None and new.count > story.finished[0]:
            count, kind = story.finished
            self.violate(
                "finished and delivered again",
                f"{offset}: {kind.name} of delivery {count} was answered OK, delivery {new.count} went to {new.member}",
                key,
            )
        for old in story.deliveries:
            if old.count == new.count and old.response_id != new.response_id:
                self.violate(
                    "count below deliveries",
                    f"{offset}: delivered to {old.member} and to {new.member} with the same count {new.count}",
                    key,
                )
        latest = max((old.count for old in story.deliveries), default=0)
        hold = story.hold
        if hold is not None and new.count > latest and self._holds(key, hold):
            left_ms = hold.deadline_ms - self._clock.now_ms
            self.violate(
                "held by another",
                f"{offset}: {hold.member} holds it for {left_ms} ms more, delivered to {new.member} ({new.count})",
                key,
            )

    def acknowledges(self, member_id: str, key: Key, batches: Iterable[AcknowledgementBatch]) -> None:
        """Report an acknowledgement (no renewal) or return of records that is about to be sent; it may end the hold."""
        for story in self._known(key, batches):
            if story.hold is not None and story.hold.member == member_id:
                story.hold = None

    def gives_back(self, member_id: str, key: Key, batches: Iterable[AcknowledgementBatch]) -> None:
        """Report records that the member has not used: their newest delivery may not count, and their lock ends."""
        for story in self._known(key, batches):
            if story.deliveries and story.deliveries[-1].member == member_id:
                story.deliveries.pop()
            if story.hold is not None and story.hold.member == member_id:
                story.hold = None

    def _known(self, key: Key, batches: Iterable[AcknowledgementBatch]) -> Iterator[_Story]:
        """Yield what is known of each record in these batches."""
        stories = self._lives.setdefault(key, _Life()).stories
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if (story := stories.get(offset)) is not None:
                    yield story

    def acknowledged_ok(
        self, member_id: str, key: Key, batches: Sequence[AcknowledgementBatch], counts: Mapping[int, int]
    ) -> None:
        """Report an acknowledgement with an OK response; `counts` are the delivery counts that it was for.

        The response may be read in the share-partition's next life, but refers to deliveries in its own.
        """
        life = self._lives.setdefault(key, _Life())
        if self.is_in_question(key):
            return
        for first, last, types in batches:
            for at, offset in enumerate(range(first, last + 1)):
                kind = AcknowledgeType(types[at if len(types) > 1 else 0])
                story = life.stories.setdefault(offset, _Story())
                if kind in _FINISHING and offset in counts and story.was_delivered(member_id, counts[offset]):
                    self.acknowledged += 1
                    if any(old.count > counts[offset] for old in story.deliveries):
                        self.violate(
                            "acknowledged another delivery",
                            f"{offset}: {kind.name} of delivery {counts[offset]} by {member_id} answered OK after a "
                            "later delivery was seen",
                            key,
                        )
                    story.finished = counts[offset], kind

    def is_in_time(self, key: Key, batches: str, grant: Grant, appended_ms: int) -> None:
        """Check that an acknowledgement with its grant and an OK response arrived within the grant's lock."""
        if appended_ms > grant.deadline_ms + self._kafka.most_behind_ms and not self.is_in_question(key):
            late_ms = appended_ms - grant.deadline_ms
            text = f"{batches} of {grant.member}, appended {late_ms} ms after its lock's end, was answered OK"
            self.violate("an acknowledgement after its lock", text, key)

    def generation(self, group_id: str, member_id: str) -> int:
        """Return the member's generation, which increases each time its records may be released."""
        return self._members.setdefault((group_id, member_id), _Member(0, 0)).generation

    def grant(self, group_id: str, member_id: str, deadline_ms: int, generation: int | None = None) -> Grant:
        """Return what a member may rely on from now on, to store with a delivery.

        `generation` is that of the request, if not the current one; a member that has left since may rely on nothing.
        """
        asked = self.generation(group_id, member_id) if generation is None else generation
        return Grant(member_id, asked, deadline_ms)

    def acknowledgement_refused(
        self, key: Key, batches: str, grant: Grant, appended_ms: int | None, error: str
    ) -> None:
        """Report a rejected acknowledgement with its append time; None: the response did not contain it."""
        member = self._members[key.group_id, grant.member]
        if (
            appended_ms is not None
            and appended_ms + self._kafka.most_behind_ms
            < min(grant.deadline_ms, member.heartbeat_ms + member.session_ms)
            and member.generation == grant.generation
            and not member.left
            and not self.is_in_question(key)
            and self._kafka.topic_by_id(key.topic_id) is not None
        ):
            left_ms = grant.deadline_ms - appended_ms
            text = f"{batches} of {grant.member}, appended {left_ms} ms before its lock's end, was refused: {error}"
            self.violate("an acknowledgement in time counts", text, key)

    def renewed(self, member_id: str, key: Key, acquired: Iterable[AcquiredRange], deadline_ms: int) -> None:
        """Report a renewal's response with these locks, of whichever delivery the member holds."""
        stories = self._lives.setdefault(key, _Life()).stories
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                story = stories.get(offset)
                is_it = story is not None and story.deliveries and story.deliveries[-1].count == count
                if story is not None and is_it and story.hold is not None and story.hold.member == member_id:
                    story.hold = story.hold._replace(deadline_ms=max(deadline_ms, story.hold.deadline_ms))

    def finished_by_answer(self, key: Key) -> Mapping[int, AcknowledgeType]:
        """Return the offsets whose acceptance or rejection had an OK response in the share-partition's present life."""
        stories = self._lives.get(key, _Life()).stories
        return {offset: story.finished[1] for offset, story in stories.items() if story.finished is not None}

    def life_with(self, key: Key, offset: int, member_id: str, count: int) -> object | None:
        """Return the share-partition's present life if a member received a record in it with that delivery count.

        Returns None otherwise, and where nothing is checked.
        """
        life = self._lives.get(key, _Life())
        is_known = offset in life.stories and life.stories[offset].was_delivered(member_id, count)
        return life if is_known and not self.is_in_question(key) else None

    def known(self) -> list[Key]:
        """Return all share-partitions about which something is known."""
        return sorted(self._lives)

    # -- administrators --------------------------------------------------------------------------------------------

    def resets(self, group_id: str, topic_ids: Iterable[str] | None = None) -> None:
        """Report a request that would reset share-partitions and is about to be sent (None: of all topics)."""
        for key, life in self._lives.items():
            if key.group_id == group_id and (topic_ids is None or key.topic_id in topic_ids):
                life.is_asked = True
        for named in [named for named in self.wanted_ms if named[0] == group_id]:
            if topic_ids is None or named[1] in topic_ids:
                self._wanted_before[named] = self.wanted_ms.pop(named)

    def reset_answered(self, group_id: str, topic_ids: Iterable[str] | None, ok: bool | None) -> None:
        """Report its response; None: the outcome is unknown. That, or no response, leaves them in question."""
        for key in [key for key in self._lives if key.group_id == group_id]:
            if topic_ids is None or key.topic_id in topic_ids:
                if ok:
                    self._lives[key] = _Life(begun_ms=self._clock.now_ms)
                else:
                    self._lives[key].is_asked = False
                    self._lives[key].is_unknown |= ok is None
        for named in [named for named in self._wanted_before if named[0] == group_id]:
            before = self._wanted_before.pop(named)
            if ok is False:
                self.wanted_ms[named] = before

    def altered(self, group_id: str, topic_id: str, partition: int) -> None:
        """Report a request for a start offset of a share-partition, which then may differ from its config.

        The request names the topic, so a repeated request may refer to the next topic of that name.
        """
        topic = self._kafka.topic_by_id(topic_id) or self._kafka.deleted[topic_id]
        self._altered.add((group_id, topic.name, partition))

    def was_altered(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an administrator has altered the share-partition's offset in this run."""
        return (group_id, topic, partition) in self._altered

    def was_any_altered(self, group_id: str, topic: str) -> bool:
        """Return whether an offset of any share-partition of the topic was altered; the others are added later then."""
        return any(altered[:2] == (group_id, topic) for altered in self._altered)

    def possible_values(self, group_id: str, name: str, default: str, from_ms: int, to_ms: int) -> list[str]:
        """Return the values that a config may have had between two times.

        Requests of one administrator follow each other, and one takes effect between its sending and its response.
        """
        possible = {default}
        for change in self.configs.get(group_id, ()):
            if name not in change.configs or change.ok is False or change.sent_ms > to_ms:
                continue
            value = change.configs[name] or default
            if change.answered_ms is not None and change.answered_ms <= from_ms:
                possible = {value}
            else:
                possible.add(value)
        return sorted(possible)

    def is_in_question(self, key: Key) -> bool:
        """Return whether an administrator's request is open, or the share-partition may belong to another topic now."""
        return self.may_be_another(key.topic_id) or (key in self._lives and self._lives[key].in_question)

    def may_be_another(self, topic_id: str) -> bool:
        """Return whether a topic without an id was deleted.

        The next topic of its name is mistaken for it until the job detects that its log ends too early.
        """
        return not self._kafka.has_topic_ids and topic_id in self._kafka.deleted

    def alters_configs(self, group_id: str, configs: Mapping[str, str | None]) -> ConfigChange:
        """Report a request to set configs that is about to be sent; mark the result at its response."""
        change = ConfigChange(self._clock.now_ms, dict(configs))
        self.configs.setdefault(group_id, []).append(change)
        return change
