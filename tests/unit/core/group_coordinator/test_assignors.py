"""Assignors alone: coverage, balance, sharing, stickiness and determinism of `simple`; `all`; users' classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.config import BUILT_IN_ASSIGNORS
from sharegroup.core.group_coordinator.assignors import (
    AllAssignor,
    GroupAssignment,
    GroupSpec,
    MemberAssignment,
    MemberSpec,
    SimpleAssignor,
    SubscribedTopicDescriber,
    get_assignor,
)
from sharegroup.core.group_coordinator.assignors.balancing import quotas, sharing
from sharegroup.errors import InvalidConfigError

Topics = Mapping[str, int]
Held = set[tuple[str, int]]


def describer(topics: Topics) -> SubscribedTopicDescriber:
    return SubscribedTopicDescriber({topic: tuple(range(partitions)) for topic, partitions in topics.items()})


def assign(
    subscriptions: Mapping[str, Iterable[str]],
    topics: Topics,
    current: Mapping[str, MemberAssignment] | None = None,
    name: str = "simple",
) -> GroupAssignment:
    """Return a group. `subscriptions` are topic ids by member; `current` are present assignments, if any."""
    members = {m: MemberSpec(tuple(ids), (current or {}).get(m, {})) for m, ids in subscriptions.items()}
    return get_assignor(name).assign(GroupSpec(members), describer(topics))


def held(assignment: MemberAssignment) -> Held:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def members_of(assignment: GroupAssignment) -> Counter[tuple[str, int]]:
    """Return the number of members of each partition."""
    return Counter(partition for of_member in assignment.values() for partition in held(of_member))


def everything(topics: Topics) -> Held:
    return {(topic, partition) for topic, partitions in topics.items() for partition in range(partitions)}


NAMES = [f"m{number}" for number in range(12)]
TOPICS = st.dictionaries(st.sampled_from(["bills", "events", "orders"]), st.integers(0, 9), min_size=1)
ASSIGNMENT = st.dictionaries(
    st.sampled_from(["bills", "events", "gone", "orders"]), st.sets(st.integers(0, 9), min_size=1)
).map(lambda found: {topic: tuple(sorted(partitions)) for topic, partitions in found.items()})
CURRENT = st.dictionaries(st.sampled_from(NAMES), ASSIGNMENT)


@st.composite
def homogeneous(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, int]]:
    """(subscriptions, topics) with at least one member."""
    topics = draw(TOPICS)
    members = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    return {member: [*topics, "unheard-of"] for member in members}, topics


@st.composite
def any_group(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, int]]:
    """(subscriptions, topics), which may differ from member to member."""
    topics = draw(TOPICS)
    subscription = st.lists(st.sampled_from([*topics, "unheard-of"]), unique=True).map(sorted)
    return draw(st.dictionaries(st.sampled_from(NAMES), subscription)), topics


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (2, 3, [2, 1]),
        (4, 3, [2, 1, 2, 1]),
        (10, 3, [2, 1, 1, 1, 1, 2, 1, 1, 1, 1]),
        (7, 5, [2, 1, 2, 1, 2, 1, 1]),
        (3, 0, [0, 0, 0]),
    ],
)
def test_quotas_are_kafkas(members: int, partitions: int, expected: list[int]) -> None:
    assert quotas(members, partitions) == expected


@pytest.mark.parametrize(("members", "partitions"), [(2, 3), (4, 3), (10, 3), (7, 5), (1, 1), (50, 50), (51, 50)])
def test_loads_are_the_quotas_and_each_partition_has_its_sharing(members: int, partitions: int) -> None:
    found = assign({f"m{number}": ["orders"] for number in range(members)}, {"orders": partitions})
    assert sorted(len(held(of_member)) for of_member in found.values()) == sorted(quotas(members, partitions))
    assert set(members_of(found).values()) == {sharing(members, partitions)}


@given(any_group(), CURRENT, st.sampled_from(BUILT_IN_ASSIGNORS))
def test_each_partition_of_a_subscribed_topic_has_a_member(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment], name: str
) -> None:
    subscriptions, topics = group
    found = assign(subscriptions, topics, current, name)
    assert set(found) == set(subscriptions)
    for member, of_member in found.items():
        assert set(of_member) <= set(subscriptions[member])
        assert all(partitions and list(partitions) == sorted(set(partitions)) for partitions in of_member.values())
    subscribed = {topic for topic_ids in subscriptions.values() for topic in topic_ids}
    assert set(members_of(found)) == {(t, p) for t, p in everything(topics) if t in subscribed}


@given(homogeneous())
def test_loads_differ_by_one_at_most(group: tuple[dict[str, list[str]], dict[str, int]]) -> None:
    subscriptions, topics = group
    found = assign(subscriptions, topics)
    loads = [len(held(of_member)) for of_member in found.values()]
    assert max(loads) - min(loads) <= 1
    partitions = len(everything(topics))
    assert set(members_of(found).values()) <= {sharing(len(subscriptions), partitions)}


@given(homogeneous(), CURRENT)
def test_quota_and_sharing_are_never_exceeded(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment]
) -> None:
    subscriptions, topics = group
    found = assign(subscriptions, topics, current)
    partitions = len(everything(topics))
    loads = sorted(len(held(of_member)) for of_member in found.values())
    assert all(load <= quota for load, quota in zip(loads, sorted(quotas(len(found), partitions)), strict=True))
    assert all(1 <= members <= sharing(len(found), partitions) for members in members_of(found).values())
    if partitions >= len(found):
        assert max(loads) - min(loads) <= 1


@given(any_group(), CURRENT)
def test_topics_of_mixed_subscriptions_are_balanced_separately(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment]
) -> None:
    subscriptions, topics = group
    found = assign(subscriptions, topics, current)
    if len({tuple(topic_ids) for topic_ids in subscriptions.values()}) > 1:
        for topic, partitions in topics.items():
            subscribers = [member for member, topic_ids in subscriptions.items() if topic in topic_ids]
            most = max(quotas(len(subscribers), partitions), default=0) if subscribers else 0
            assert all(len(found[member].get(topic, ())) <= most for member in subscribers)


def test_remainder_of_a_topic_goes_to_the_least_loaded() -> None:
    topics = {f"t{number}": 3 for number in range(10)}
    found = assign({"a": topics, "b": topics, "c": ["t0", "unheard-of"], "d": ["t1"]}, topics)
    loads = {member: len(held(of_member)) for member, of_member in found.items()}
    assert abs(loads["a"] - loads["b"]) <= 1


@given(any_group(), CURRENT, st.sampled_from(BUILT_IN_ASSIGNORS))
def test_a_group_that_did_not_change_keeps_its_assignment(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment], name: str
) -> None:
    found = assign(*group, current, name)
    assert assign(*group, found, name) == found


@given(homogeneous(), st.sampled_from(NAMES))
def test_joins_and_departures_move_as_little_as_possible(
    group: tuple[dict[str, list[str]], dict[str, int]], member: str
) -> None:
    """This holds while the sharing stays the same."""
    with_it, topics = group
    with_it = {**with_it, member: [*topics, "unheard-of"]}
    without = {other: topic_ids for other, topic_ids in with_it.items() if other != member}
    partitions = len(everything(topics))
    if not without or not partitions:
        return
    is_shared_alike = sharing(len(with_it), partitions) == sharing(len(without), partitions)

    def taken(before: GroupAssignment, after: GroupAssignment) -> int:
        return sum(len(held(before[other]) - held(after[other])) for other in without)

    before = assign(with_it, topics)
    if is_shared_alike:
        assert taken(before, assign(without, topics, before)) == 0
    before = assign(without, topics)
    joined = assign(with_it, topics, before)
    assert held(joined[member])
    if is_shared_alike:
        assert taken(before, joined) <= len(held(joined[member]))
    else:
        assert taken(before, joined) == 0, "a member more for each partition takes it from nobody"


@given(any_group(), CURRENT, st.randoms(use_true_random=False))
def test_the_order_of_members_means_nothing(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment], random: object
) -> None:
    subscriptions, topics = group
    backwards = dict(reversed(subscriptions.items()))
    assert assign(backwards, topics, dict(reversed(current.items()))) == assign(subscriptions, topics, current)


def test_new_partition_goes_to_the_least_loaded_member() -> None:
    subscriptions = {"a": ["orders"], "b": ["orders"]}
    before = assign(subscriptions, {"orders": 3})
    after = assign(subscriptions, {"orders": 4}, before)
    assert all(held(before[member]) <= held(after[member]) for member in subscriptions)
    assert [len(held(of_member)) for of_member in after.values()] == [2, 2]


def test_a_member_that_subscribes_to_nothing_that_there_is_has_nothing() -> None:
    found = assign({"a": ["unheard-of"], "b": []}, {"orders": 3})
    assert found == {"a": {}, "b": {}}
    assert assign({}, {"orders": 3}) == {}


@given(any_group(), CURRENT)
def test_all_assigns_every_partition_to_every_member(
    group: tuple[dict[str, list[str]], dict[str, int]], current: dict[str, MemberAssignment]
) -> None:
    subscriptions, topics = group
    found = assign(subscriptions, topics, current, "all")
    assert {member: held(of_member) for member, of_member in found.items()} == {
        member: {(t, p) for t, p in everything(topics) if t in topic_ids} for member, topic_ids in subscriptions.items()
    }


def test_change_from_all_to_simple_keeps_the_sharing() -> None:
    subscriptions, topics = {name: ["orders"] for name in "abcd"}, {"orders": 8}
    of_all = assign(subscriptions, topics, name="all")
    found = assign(subscriptions, topics, of_all)
    assert set(members_of(found).values()) == {1}
    assert [len(held(of_member)) for of_member in found.values()] == [2, 2, 2, 2]


def test_every_name_has_its_assignor() -> None:
    assert [type(get_assignor(name)) for name in BUILT_IN_ASSIGNORS] == [SimpleAssignor, AllAssignor]


class ByRack:
    """An assignor by rack number, which also assigns two partitions that do not exist."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        return {
            member_id: {topic: (99, int(member.rack_id)), "not subscribed": (0,)}
            for member_id, member in group.members.items()
            if member.rack_id is not None
            for topic in member.subscribed_topic_ids
        }


class Broken:
    """An assignor that raises."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        raise ZeroDivisionError


class NoAssignor:
    """A class without `assign`."""


def test_a_class_of_a_user_assigns_by_rack() -> None:
    group = GroupSpec({name: MemberSpec(("orders",), {}, rack) for name, rack in (("a", "1"), ("b", "0"), ("c", None))})
    found = get_assignor(f"{__name__}.ByRack").assign(group, describer({"orders": 2}))
    assert found == {"a": {"orders": (1,)}, "b": {"orders": (0,)}, "c": {}}


def test_a_class_that_fails_is_replaced_by_simple(caplog: pytest.LogCaptureFixture) -> None:
    subscriptions, topics = {name: ["orders"] for name in "ab"}, {"orders": 4}
    assert assign(subscriptions, topics, name=f"{__name__}.Broken") == assign(subscriptions, topics)
    assert "Broken failed; the assignor 'simple' is used instead" in caplog.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{__name__}.Missing", "AttributeError: "),
        ("no_such_package.Assignor", "ModuleNotFoundError: "),
        (f"{__name__}.NoAssignor", "it has no method assign"),
    ],
)
def test_a_class_that_cannot_assign_is_a_wrong_configuration(name: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"class {name} cannot be used as an assignor: {reason}"):
        get_assignor(name)
