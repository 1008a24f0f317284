"""Random sequences of events of a group, with restarts: the invariants hold after each."""

import dataclasses
from collections.abc import Iterable, Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.config import BUILT_IN_ASSIGNORS, Config
from sharegroup.core.group_coordinator import CoordinatorResult, GroupState, ShareGroup, SharePartitionStatus
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import ShareGroupConfigRecord, TopicPartitions
from sharegroup.core.group_coordinator.target_assignment import DISCOVERY_MS, INITIALIZING_MS
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    ALTER_OFFSETS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
    StartOffset,
    TopicMetadata,
)
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, Driver, request

MEMBERS = st.sampled_from("abcd")
NAMES = st.sampled_from(["n1", "n2"])
PROCESSES = st.sampled_from(["p1", "p2"])
TOPICS = st.lists(st.sampled_from(["bills", "events", "orders"]), min_size=1, max_size=3)
TOPIC_IDS = {"bills": ["bills-1", "bills-1", "bills-2"], "orders": ["orders-1", "orders-1", "orders-2"]}
METADATA = st.fixed_dictionaries(
    {},
    optional={
        name: st.builds(TopicMetadata, st.sampled_from(topic_ids), st.integers(0, 3))
        for name, topic_ids in TOPIC_IDS.items()
    },
)


class GroupLife(RuleBasedStateMachine):
    """Members join, heartbeat with right and wrong epochs, leave and time out, while partitions become initialized."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.highest_epoch = 0
        self.released: dict[str, int] = {}

    @initialize(assignor=st.sampled_from(BUILT_IN_ASSIGNORS), interval_ms=st.sampled_from([0, 1_000, 15_000]))
    def configured(self, assignor: str, interval_ms: int) -> None:
        config = dataclasses.replace(CONFIG, assignor=assignor, assignment_interval_ms=interval_ms)
        self.driver.config = config

    @property
    def metadata(self) -> GroupMetadata:
        return self.driver.group.metadata

    @property
    def is_pending(self) -> bool:
        return self.metadata.exists and self.metadata.assignment_epoch < self.metadata.group_epoch

    @property
    def is_initializing(self) -> bool:
        """Return whether the assignor waits for the other share-partitions of a topic."""
        return self.metadata.initializing_since_ms is not None and not self.is_pending

    def note_releases(self) -> None:
        for release in self.driver.last.releases:
            self.released[release.member_id] = release.member_epoch

    @rule(member=MEMBERS, topics=TOPICS, metadata=METADATA)
    def join(self, member: str, topics: list[str], metadata: Mapping[str, TopicMetadata]) -> None:
        is_full = len(self.metadata.members) == self.driver.config.max_size and member not in self.metadata.members
        response = self.driver.join(member, topics, metadata)
        assert response.error_code == (ErrorCode.GROUP_MAX_SIZE_REACHED if is_full else ErrorCode.NONE)
        assert is_full or response.assignment is not None

    @rule(
        member=MEMBERS,
        epoch=st.integers(1, 12) | st.none(),
        topics=st.none() | TOPICS,
        metadata=METADATA,
        rack=st.sampled_from([None, "r"]),
    )
    def heartbeat(
        self,
        member: str,
        epoch: int | None,
        topics: list[str] | None,
        metadata: Mapping[str, TopicMetadata],
        rack: str | None,
    ) -> None:
        known = self.metadata.members.get(member)
        sent = epoch or (known.member_epoch if known else 1)
        before = self.driver.group.dump()
        response = self.driver.send(request(member, sent, topics, metadata, rack))
        accepted = known is not None and sent in (known.member_epoch, known.previous_member_epoch)
        assert (response.error_code == ErrorCode.NONE) == accepted
        if not accepted:
            assert self.driver.group.dump() == before
        else:
            told = self.metadata.members[member]
            assert response.member_epoch == told.member_epoch == self.metadata.assignment_epoch
            assert told.assignment == self.metadata.targets[member]

    @rule(name=NAMES, process=PROCESSES, topics=TOPICS, metadata=METADATA)
    def join_by_name(self, name: str, process: str, topics: list[str], metadata: Mapping[str, TopicMetadata]) -> None:
        stored = self.metadata.static_members.get(name)
        epoch = self.metadata.members[stored].member_epoch if stored else 0
        is_full = stored is None and len(self.metadata.members) >= self.driver.config.max_size
        row = request("", 0, topics, metadata, instance=name, incarnation=process, id_=f"join-{name}")
        response = self.driver.send(row)
        assert response.error_code == (ErrorCode.GROUP_MAX_SIZE_REACHED if is_full else ErrorCode.NONE)
        if not is_full:
            assert stored in (None, response.member_id)
            assert response.member_epoch >= epoch
            assert self.metadata.members[response.member_id].incarnation_id == process
            assert self.driver.last.releases == ()

    @rule(name=NAMES, process=PROCESSES, epoch=st.sampled_from([None, 1, -1, -2]), member=st.none() | MEMBERS)
    def speak_by_name(self, name: str, process: str, epoch: int | None, member: str | None) -> None:
        """Stay, leave, or leave for a restart, as the current process or as a previous one."""
        stored = self.metadata.members.get(self.metadata.static_members.get(name, ""))
        member_id = member or (stored.member_id if stored else "nobody")
        sent = epoch or (stored.member_epoch if stored else 1)
        before = self.driver.group.dump()
        response = self.driver.send(request(member_id, sent, instance=name, incarnation=process))
        is_the_member = stored is not None and member_id == stored.member_id and process == stored.incarnation_id
        epochs = {-1, -2, *((stored.member_epoch, stored.previous_member_epoch) if stored else ())}
        assert (response.error_code == ErrorCode.NONE) == (is_the_member and sent in epochs)
        if response.error_code:
            assert self.driver.group.dump() == before
        elif sent == -1:
            assert name not in self.metadata.static_members
        else:
            assert self.driver.last.releases == ()
            assert self.metadata.static_members[name] == member_id
        self.note_releases()

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        was_member = member in self.metadata.members
        response = self.driver.leave(member)
        assert (response.error_code == ErrorCode.NONE) == was_member
        assert member not in self.metadata.members
        self.note_releases()

    @rule(elapsed_ms=st.integers(0, 50_000))
    def time_passes(self, elapsed_ms: int) -> None:
        self.driver.now_ms += elapsed_ms
        self.driver.expire()
        self.note_releases()
        assert self.driver.group.next_deadline_ms is None or self.driver.group.next_deadline_ms > self.driver.now_ms

    @precondition(lambda self: self.metadata.share_partitions)
    @rule(data=st.data())
    def some_are_initialized(self, data: st.DataObject) -> None:
        records = [record for topic in self.metadata.share_partitions.values() for record in topic.values()]
        chosen = data.draw(st.lists(st.sampled_from(records), unique=True))
        notices = [(record.topic_id, record.partition, record.state_epoch) for record in chosen]
        self.driver.apply(self.driver.group.handle_initialized(notices, self.driver.now_ms))
        for record in chosen:
            is_deleting = record.status is SharePartitionStatus.DELETING
            status = self.metadata.share_partitions[record.topic_id][record.partition].status
            assert status is (SharePartitionStatus.DELETING if is_deleting else SharePartitionStatus.INITIALIZED)

    @precondition(lambda self: self.metadata.share_partitions)
    @rule(data=st.data(), is_stale=st.booleans())
    def some_deletions_are_durable(self, data: st.DataObject, is_stale: bool) -> None:
        records = [record for topic in self.metadata.share_partitions.values() for record in topic.values()]
        chosen = data.draw(st.lists(st.sampled_from(records), unique=True))
        notices = [(record.topic_id, record.partition, record.state_epoch - is_stale) for record in chosen]
        self.driver.apply(self.driver.group.handle_deleted(notices))
        for record in chosen:
            is_gone = record.partition not in self.metadata.share_partitions.get(record.topic_id, {})
            assert is_gone == (record.status is SharePartitionStatus.DELETING and not is_stale)

    @rule(
        kind=st.sampled_from([ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUP]),
        topics=TOPICS,
        metadata=METADATA,
        partition=st.integers(0, 2),
    )
    def administer(self, kind: str, topics: list[str], metadata: Mapping[str, TopicMetadata], partition: int) -> None:
        before, offsets = self.driver.group.dump(), tuple(StartOffset(topic, partition, 7) for topic in topics)
        existed, had_members = self.metadata.exists, bool(self.metadata.members)
        requests: dict[str, AdministratorRequest] = {
            ALTER_OFFSETS: AlterOffsetsRequest("x", GROUP, topics=metadata, offsets=offsets),
            DELETE_OFFSETS: DeleteOffsetsRequest("x", GROUP, topic_names=tuple(topics)),
            DELETE_GROUP: DeleteGroupRequest("x", GROUP),
        }
        response = self.driver.administer(requests[kind])
        expected = ErrorCode.NONE
        if kind != ALTER_OFFSETS and not existed:
            expected = ErrorCode.GROUP_ID_NOT_FOUND
        elif had_members:
            expected = ErrorCode.NON_EMPTY_GROUP
        assert response.error_code == expected
        if expected is not ErrorCode.NONE:
            assert self.driver.group.dump() == before

    @rule(members=st.lists(st.tuples(MEMBERS, st.none() | NAMES), min_size=1, max_size=3))
    def some_members_are_removed(self, members: list[tuple[str, str | None]]) -> None:
        before, existed = set(self.metadata.members), self.metadata.exists
        named = tuple(MemberIdentity("" if name else member, name) for member, name in members)
        known = {self.metadata.static_members.get(name, "") if name else member for member, name in named}
        response = self.driver.administer(RemoveMembersRequest("x", GROUP, members=named))
        assert response.error_code == (ErrorCode.NONE if existed else ErrorCode.GROUP_ID_NOT_FOUND)
        assert set(self.metadata.members) == before - known
        self.note_releases()

    @rule()
    def it_is_rebalanced(self) -> None:
        before = dict(self.metadata.members)
        response = self.driver.administer(InvokeConsumerRebalanceRequest("x", GROUP))
        assert (response.error_code == ErrorCode.NONE) == bool(before)
        assert all(member.is_static for m, member in before.items() if m not in self.metadata.members)
        assert all(member.incarnation_id != "" for member in self.metadata.members.values())
        self.note_releases()

    @rule(topic_ids=st.sets(st.sampled_from(["bills-1", "bills-2", "orders-1", "orders-2"]), min_size=1))
    def topics_are_deleted(self, topic_ids: set[str]) -> None:
        self.driver.topics_deleted(*sorted(topic_ids))
        assert not topic_ids & set(self.metadata.topic_ids().values())
        self.driver.topics_deleted(*sorted(topic_ids))
        assert self.driver.last == CoordinatorResult()

    @rule(reset=st.sampled_from([None, "earliest", "latest", "by_duration:PT1S"]))
    def the_reset_is_altered(self, reset: str | None) -> None:
        configs = {"share.auto.offset.reset": reset}
        request = AlterConfigsRequest("x", GROUP, configs=configs)
        assert self.driver.administer(request).error_code == ErrorCode.NONE
        self.driver.config = dataclasses.replace(
            self.driver.config,
            auto_offset_reset=Config().effective_group_config(GROUP, self.metadata.configs).config.auto_offset_reset,
        )

    @rule(assignor=st.sampled_from(BUILT_IN_ASSIGNORS))
    def the_assignor_is_altered(self, assignor: str) -> None:
        self.driver.config = dataclasses.replace(self.driver.config, assignor=assignor)
        self.driver.apply(CoordinatorResult())

    @rule()
    def operator_stops_and_starts(self) -> None:
        self.driver.group = self.driver.through_json()

    @invariant()
    def a_dump_and_its_restore_are_equal(self) -> None:
        assert self.driver.through_json().metadata == self.metadata

    @invariant()
    def epochs_are_ordered_and_never_go_back(self) -> None:
        group = self.metadata
        assert group.group_epoch >= self.highest_epoch
        assert group.group_epoch != 1, "the first one is 2"
        assert group.assignment_epoch <= group.group_epoch
        for member in group.members.values():
            assert -1 <= member.previous_member_epoch < member.member_epoch <= group.assignment_epoch
        self.highest_epoch = group.group_epoch

    @invariant()
    def a_member_is_newer_than_its_last_release(self) -> None:
        for member in self.metadata.members.values():
            assert member.member_epoch > self.released.get(member.member_id, 0)

    @invariant()
    def the_assignor_runs_at_once_or_when_its_interval_is_over(self) -> None:
        group, config = self.metadata, self.driver.config
        if self.is_pending:
            ran_ms, since_ms = group.assignment_timestamp_ms, group.initializing_since_ms
            ends = [0 if ran_ms is None else ran_ms + config.assignment_interval_ms]
            ends.append(0 if since_ms is None else since_ms + DISCOVERY_MS)
            assert self.driver.now_ms < max(ends) == self.driver.group.assignment_deadline_ms(config)
        elif group.members:
            assert group.assignor == config.assignor

    @invariant()
    def the_assignor_waits_a_limited_time_for_a_topic_to_be_initialized(self) -> None:
        if self.is_initializing:
            since_ms = self.metadata.initializing_since_ms
            assert since_ms is not None
            deadline_ms = self.driver.group.assignment_deadline_ms(self.driver.config)
            assert deadline_ms == since_ms + INITIALIZING_MS > self.driver.now_ms

    @invariant()
    def what_is_initialized_and_subscribed_to_is_assigned(self) -> None:
        for member_id, target in self.metadata.targets.items():
            assert {item.topic for item in target} <= {*self.metadata.members[member_id].subscribed_topic_names}
        if self.is_initializing:
            self.check_targets_of_complete_topics(self.metadata)
        elif not self.is_pending:
            self.check_targets(self.metadata)

    def check_targets(self, group: GroupMetadata) -> None:
        """Each initialized share-partition of a topic with a subscriber has a member, and with `all` each of them."""
        assignable = group.assignable_topics()
        subscribed = {m: group.members[m].subscribed_topic_names for m in group.targets}
        every = {m: {assignable[topic] for topic in names if topic in assignable} for m, names in subscribed.items()}
        if self.driver.config.assignor == "all":
            assert {m: set(target) for m, target in group.targets.items()} == every
        assert partitions(*group.targets.values()) == partitions(*every.values())

    def check_targets_of_complete_topics(self, group: GroupMetadata) -> None:
        """Only topics that are still being initialized have unassigned share-partitions."""
        names = {name for member in group.members.values() for name in member.subscribed_topic_names}
        topics = [item for name, item in group.assignable_topics().items() if name in names]
        complete = [
            item
            for item in topics
            if not group.partitions_with_status(item.topic_id, SharePartitionStatus.INITIALIZING)
        ]
        assert partitions(complete) <= partitions(*group.targets.values()) <= partitions(topics)

    @invariant()
    def a_name_is_one_topic(self) -> None:
        records = [record for of_topic in self.metadata.share_partitions.values() for record in of_topic.values()]
        living = {(r.topic, r.topic_id) for r in records if r.status is not SharePartitionStatus.DELETING}
        assert len(living) == len(dict(living))

    @invariant()
    def what_is_still_to_be_initialized_starts_by_the_reset_of_now(self) -> None:
        reset = str(self.driver.config.auto_offset_reset)
        for records in self.metadata.share_partitions.values():
            for record in records.values():
                assert (record.start_offset == -1) == (record.auto_offset_reset is not None)
                if record.start_offset == -1 and record.status is SharePartitionStatus.INITIALIZING:
                    assert record.auto_offset_reset == reset

    @invariant()
    def every_member_has_a_target_and_a_session(self) -> None:
        group = self.metadata
        assert set(group.members) == set(group.targets) == set(group.session_deadlines)
        if group.exists:
            assert group.group_state is (GroupState.STABLE if group.members else GroupState.EMPTY)

    @invariant()
    def a_name_is_one_member(self) -> None:
        group = self.metadata
        named = {(m.group_instance_id, member_id) for member_id, m in group.members.items() if m.is_static}
        assert named == set(group.static_members.items())

    @invariant()
    def all_records_replayed_give_the_same_group(self) -> None:
        replayed = GroupMetadata(GROUP)
        for record in self.driver.records:
            replayed.replay(record)
        assert replayed == self.metadata

    @invariant()
    def the_rows_of_the_tables_give_the_same_group(self) -> None:
        rows = self.driver.group_tables()
        loaded = ShareGroup.load(GROUP, rows, self.driver.now_ms, self.driver.config).metadata
        if self.driver.group.is_deleted or not self.metadata.group_epoch:
            rows = [row for row in rows if not isinstance(row, ShareGroupConfigRecord)]
            assert (rows, loaded) == ([], GroupMetadata(GROUP, configs=self.metadata.configs))
            return
        for member_id, member in self.metadata.members.items():  # the previous epoch is not in the tables
            previous = member.previous_member_epoch
            loaded.members[member_id] = loaded.members[member_id]._replace(previous_member_epoch=previous)
        loaded.session_deadlines = dict(self.metadata.session_deadlines)
        loaded.deadline_receivers = dict(self.metadata.deadline_receivers)
        loaded.deleted_topics = dict(self.metadata.deleted_topics)
        loaded.assignor = self.metadata.assignor
        loaded.assignment_timestamp_ms = self.metadata.assignment_timestamp_ms
        loaded.departed = set(self.metadata.departed)
        loaded.initializing_since_ms = self.metadata.initializing_since_ms
        self.check_targets(loaded)
        if self.is_pending or self.is_initializing or not self.all_are_told:
            assert loaded.group_epoch in (self.metadata.group_epoch, self.metadata.group_epoch + 1)
            loaded.targets, loaded.group_epoch = dict(self.metadata.targets), self.metadata.group_epoch
        assert loaded == self.metadata

    @property
    def all_are_told(self) -> bool:
        """Return whether the targets follow from the tables, which is the case for `all`."""
        group = self.metadata
        return self.driver.config.assignor == "all" or all(
            member.assignment == group.targets[member_id] for member_id, member in group.members.items()
        )


def partitions(*assignments: Iterable[TopicPartitions]) -> set[tuple[str, int]]:
    return {(item.topic_id, partition) for held in assignments for item in held for partition in item.partitions}


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
