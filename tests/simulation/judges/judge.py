"""The judge: from outside, by what clients sent and were answered, whether what README promises was kept.

Clients tell the judge what they send, before it is on its way, and what they were answered, when they read it. So at
any moment the judge knows less than the job: it says nothing of what may be either way. Its rules, while clients talk:

- a record whose acceptance (or rejection) was answered OK is never delivered again;
- the delivery count of a record is another one at each delivery, and never above the limit;
- nobody gets a record that another holds within its lock, and a lock is as long as the group's config says;
- an acknowledgement counts when it comes within its lock and session, and is refused when it comes after its lock or is
  for an older delivery;
- nobody gets what the log does not have.

Where brokers' clocks differ, either answer is right for so long around the end of a lock.

What `DeltaSink` promises is judged in `sink_judge`.

What remains to be judged at the end, from the tables, is in `last_judgement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import SimulatedKafka, Topic
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

#: The job has noticed by then that a name stands for another topic, however long it was away.
_NAMES_AGREE_MS = 500_000
_FINISHING = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Key(NamedTuple):
    """A share-partition: topics are what their ids say, the name is for reading."""

    group_id: str
    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id} {self.topic}-{self.partition}"


class Violation(NamedTuple):
    """A promise that was not kept; `about` is the share-partition, where it is about one."""

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
    """Records that a member holds, and until when; `generation` is the member's of then."""

    member: str
    generation: int
    deadline_ms: int


@dataclass
class _Story:
    """What is known of one record in its share-partition's present life."""

    deliveries: list[_Delivery] = field(default_factory=list)
    hold: Grant | None = None
    finished: tuple[int, AcknowledgeType] | None = None

    def was_delivered(self, member_id: str, count: int) -> bool:
        """Whether the member has seen it with that delivery count."""
        return any(old.member == member_id and old.count == count for old in self.deliveries)


@dataclass
class _Member:
    """`generation` goes up when what it held may have been taken from it for a good reason."""

    session_ms: int
    heartbeat_ms: int
    generation: int = 0
    left: bool = False


class ConfigChange:
    """One request to set configs of a group; `answered_ms` is None until it was answered, `ok` as well."""

    def __init__(self, sent_ms: int, configs: Mapping[str, str | None]) -> None:
        self.sent_ms, self.configs = sent_ms, configs
        self.answered_ms: int | None = None
        self.ok: bool | None = None


@dataclass
class _Life:
    """A share-partition from one beginning to the next, which was told at `begun_ms`."""

    stories: dict[int, _Story] = field(default_factory=dict)
    begun_ms: int = 0
    #: An administrator's request that would begin it anew is on its way, or nobody knows what came of one.
    is_asked: bool = False
    is_unknown: bool = False

    @property
    def in_question(self) -> bool:
        """Whether it may have begun anew without a word: nothing is judged then."""
        return self.is_asked or self.is_unknown


class Judge:
    """Hears what clients sent and were answered, and says what breaks a promise. `violations` are all that were found,
    in order."""

    def __init__(self, clock: Scheduler, trace: Trace, kafka: SimulatedKafka) -> None:
        self._clock, self._trace, self._kafka = clock, trace, kafka
        self.violations: list[Violation] = []
        self._lives: dict[Key, _Life] = {}
        self._members: dict[tuple[str, str], _Member] = {}
        self.configs: dict[str, list[ConfigChange]] = {}
        #: When somebody first wanted a share-partition's topic, by (group, topic id).
        self.wanted_ms: dict[tuple[str, str], int] = {}
        self._wanted_before: dict[tuple[str, str], int] = {}
        self._altered: set[tuple[str, str, int]] = set()
        self.count_limit = 10
        self.deliveries = self.acknowledged = 0

    def violate(self, rule: str, text: str, about: Key | str = "") -> None:
        """Say that a promise was not kept; once a rule and share-partition."""
        told = str(about)
        if any(known.rule == rule and known.about == told for known in self.violations):
            return
        self.violations.append(Violation(self._clock.now_ms, rule, text, told))
        self._trace.add("judge", f"VIOLATION {rule}: {text}", *([told] if told else []))

    # -- members ---------------------------------------------------------------------------------------------------

    def wants(self, group_id: str, topic_ids: Iterable[str]) -> None:
        """A heartbeat that names these topics is about to be sent."""
        for topic_id in topic_ids:
            self.wanted_ms.setdefault((group_id, topic_id), self._clock.now_ms)

    def heartbeat_appended(self, group_id: str, member_id: str, append_ms: int, session_ms: int) -> None:
        """A heartbeat of a member is in the log, as the member was answered."""
        member = self._members.setdefault((group_id, member_id), _Member(session_ms, append_ms))
        if append_ms - member.heartbeat_ms >= member.session_ms or member.left:
            member.generation += 1
        member.left = False
        member.session_ms = session_ms
        member.heartbeat_ms = max(member.heartbeat_ms, append_ms)

    def session_over(self, group_id: str, member_id: str) -> None:
        """The member is about to leave, or to end its session, or was told that it is none: what it held may go."""
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
        """What no broker's clock and no client's count of a lock has reached yet."""
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
        """A member has looked at what a response gave it; of a response that comes twice only the first time.

        Who has waited before it looks names the grant of then.
        """
        life = self._lives.setdefault(key, _Life())
        # What was sent in an earlier life may be looked at in this one.
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
        """A fetch that was sent at `fetched_ms` got locks, which last for `duration_ms` at least from then on."""
        missing_ms = fetched_ms - self._kafka.most_behind_ms + duration_ms - deadline_ms
        if missing_ms > 0:
            self.violate("a lock is as long as configured", f"{missing_ms} ms of {duration_ms} are missing", key)

    def was_delivered(self, key: Key, offset: int) -> bool:
        """Whether a member was given the record in the share-partition's present life."""
        life = self._lives.get(key)
        return life is not None and offset in life.stories and bool(life.stories[offset].deliveries)

    def _check_log(self, key: Key, first: int, last: int) -> None:
        topic = self._kafka.topic_by_id(key.topic_id) or self._kafka.deleted.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            self.violate("no such log", f"{first}..{last} delivered of topic id {key.topic_id}", key)
        else:
            end = self._end_of(topic, key.partition)
            if last >= end:
                self.violate("beyond the log", f"{first}..{last} delivered, the log ends at {end}", key)

    def _end_of(self, topic: Topic, partition: int) -> int:
        """Offsets are asked for by name: of one that is no more they are, for a moment, those of the next topic."""
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
        """An acknowledgement (no renewal), or the return of records, is about to be sent: the hold may end."""
        stories = self._lives.setdefault(key, _Life()).stories
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                story = stories.get(offset)
                if story is not None and story.hold is not None and story.hold.member == member_id:
                    story.hold = None

    def acknowledged_ok(
        self, member_id: str, key: Key, batches: Sequence[AcknowledgementBatch], counts: Mapping[int, int]
    ) -> None:
        """An acknowledgement was answered without an error; `counts` are the delivery counts that it was for.

        The answer may be looked at in the share-partition's next life: it is about what was delivered in its own.
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
        """An acknowledgement that named its grant was answered without an error: it came within the grant's lock."""
        if appended_ms > grant.deadline_ms + self._kafka.most_behind_ms and not self.is_in_question(key):
            late_ms = appended_ms - grant.deadline_ms
            text = f"{batches} of {grant.member}, appended {late_ms} ms after its lock's end, was answered OK"
            self.violate("an acknowledgement after its lock", text, key)

    def generation(self, group_id: str, member_id: str) -> int:
        """It goes up each time what the member holds may go."""
        return self._members.setdefault((group_id, member_id), _Member(0, 0)).generation

    def grant(self, group_id: str, member_id: str, deadline_ms: int, generation: int | None = None) -> Grant:
        """What a member may rely on from now on: remember it with what was delivered. `generation` is that of when it
        was asked for, if not that of now: who has left since may rely on nothing."""
        asked = self.generation(group_id, member_id) if generation is None else generation
        return Grant(member_id, asked, deadline_ms)

    def acknowledgement_refused(
        self, key: Key, batches: str, grant: Grant, appended_ms: int | None, error: str
    ) -> None:
        """An acknowledgement that was appended at a time (None: that was not answered) was refused."""
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
        """A renewal was answered with these locks, of whichever delivery the member holds."""
        stories = self._lives.setdefault(key, _Life()).stories
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                story = stories.get(offset)
                is_it = story is not None and story.deliveries and story.deliveries[-1].count == count
                if story is not None and is_it and story.hold is not None and story.hold.member == member_id:
                    story.hold = story.hold._replace(deadline_ms=max(deadline_ms, story.hold.deadline_ms))

    def finished_by_answer(self, key: Key) -> Mapping[int, AcknowledgeType]:
        """Offsets whose acceptance or rejection was answered OK in the share-partition's present life."""
        stories = self._lives.get(key, _Life()).stories
        return {offset: story.finished[1] for offset, story in stories.items() if story.finished is not None}

    def life_with(self, key: Key, offset: int, member_id: str, count: int) -> object | None:
        """The share-partition's present life, if a member was delivered a record in it with that delivery count; None
        if it was not, or where nothing is judged."""
        life = self._lives.get(key, _Life())
        is_known = offset in life.stories and life.stories[offset].was_delivered(member_id, count)
        return life if is_known and not self.is_in_question(key) else None

    def known(self) -> list[Key]:
        """All share-partitions that anything is known of."""
        return sorted(self._lives)

    # -- administrators --------------------------------------------------------------------------------------------

    def resets(self, group_id: str, topic_ids: Iterable[str] | None = None) -> None:
        """A request that would begin share-partitions anew is about to be sent (None: of all topics)."""
        for key, life in self._lives.items():
            if key.group_id == group_id and (topic_ids is None or key.topic_id in topic_ids):
                life.is_asked = True
        for named in [named for named in self.wanted_ms if named[0] == group_id]:
            if topic_ids is None or named[1] in topic_ids:
                self._wanted_before[named] = self.wanted_ms.pop(named)

    def reset_answered(self, group_id: str, topic_ids: Iterable[str] | None, ok: bool | None) -> None:
        """It was answered; None: it may have been done. That, or no answer, leaves them in question."""
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
        """Somebody asks for a start offset of a share-partition: from then on it need not be its config's.

        Who asks names the topic: asked again, it may be the next one of that name.
        """
        topic = self._kafka.topic_by_id(topic_id) or self._kafka.deleted[topic_id]
        self._altered.add((group_id, topic.name, partition))

    def was_altered(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an administrator has altered the share-partition's offset in this run."""
        return (group_id, topic, partition) in self._altered

    def was_any_altered(self, group_id: str, topic: str) -> bool:
        """Whether somebody did for any of the topic's: the others are then added later."""
        return any(altered[:2] == (group_id, topic) for altered in self._altered)

    def possible_values(self, group_id: str, name: str, default: str, from_ms: int, to_ms: int) -> list[str]:
        """What a config may have been at some moment between two times: requests of one administrator follow each
        other, and one is in force from somewhere between its sending and its answer."""
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
        """Whether an administrator's request is open, or the share-partition may be of another topic by now."""
        return self.may_be_another(key.topic_id) or (key in self._lives and self._lives[key].in_question)

    def may_be_another(self, topic_id: str) -> bool:
        """Whether a topic was deleted that had no id: the next one of its name is taken for it, until the job sees that
        its log ends too early, which nobody else can tell."""
        return not self._kafka.has_topic_ids and topic_id in self._kafka.deleted

    def alters_configs(self, group_id: str, configs: Mapping[str, str | None]) -> ConfigChange:
        """A request to set configs is about to be sent; mark it when it was answered."""
        change = ConfigChange(self._clock.now_ms, dict(configs))
        self.configs.setdefault(group_id, []).append(change)
        return change
