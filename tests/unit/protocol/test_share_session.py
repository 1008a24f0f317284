"""Share sessions: epochs, topic lists, limits and connections. Each rule is tested alone, then all with a model."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.share_session import (
    LAST_EPOCH,
    MAX_PARTITIONS,
    ContextKind,
    ShareSession,
    ShareSessionCache,
    TopicIdPartition,
)

P = [TopicIdPartition(UUID(int=1 + i // 2), i % 2) for i in range(6)]


def opened(limit: int = 10, partitions: int = 3) -> ShareSessionCache:
    """Return sessions with one of member `m` in group `g`, on connection 7; its next epoch is 1."""
    sessions = ShareSessionCache(limit)
    sessions.fetch_context("g", "m", 0, 7, P[:partitions])
    return sessions


def the_session(sessions: ShareSessionCache) -> ShareSession:
    session = sessions.get("g", "m")
    assert session is not None
    return session


def code_of(error: pytest.ExceptionInfo[RequestError]) -> ErrorCode:
    return error.value.code


def test_epoch_0_opens_a_session_with_all_named_partitions() -> None:
    sessions = ShareSessionCache(1)
    session, kind, partitions, dropped = sessions.fetch_context("g", "m", 0, 7, [P[2], P[0], P[2]])
    assert (kind, partitions, dropped, session.epoch) == (ContextKind.NEW, [P[2], P[0]], None, 1)
    assert sessions.get("g", "m") is session


def test_epoch_0_drops_the_older_session() -> None:
    sessions = opened()
    old = the_session(sessions)
    context = sessions.fetch_context("g", "m", 0, 8, [P[5]])
    assert context.dropped is old
    assert context.partitions == [P[5]]
    assert len(sessions) == 1
    assert sessions.evict_connection(7) == []
    assert sessions.evict_connection(8) == [context.session]


def test_session_has_a_limited_number_of_partitions() -> None:
    many = [TopicIdPartition(UUID(int=9), number) for number in range(MAX_PARTITIONS)]
    sessions = opened(partitions=1)
    assert len(sessions.fetch_context("g", "m", 1, 7, add=many[1:]).partitions) == MAX_PARTITIONS
    with pytest.raises(RequestError) as refused:
        sessions.fetch_context("g", "m", 2, 7, add=many)
    assert code_of(refused) is ErrorCode.INVALID_REQUEST
    assert len(sessions.fetch_context("g", "m", 2, 7, add=many, forget=[P[0]]).partitions) == MAX_PARTITIONS
    with pytest.raises(RequestError):
        sessions.fetch_context("g", "m", 0, 7, add=[*many, P[0]])
    assert the_session(sessions).epoch == 3


def test_later_epoch_names_only_changes() -> None:
    sessions = opened(partitions=4)
    context = sessions.fetch_context("g", "m", 1, 7, add=[P[4]], forget=[P[0], P[5]])
    assert context.kind is ContextKind.INCREMENTAL
    assert list(context.session.partitions) == [P[1], P[2], P[3], P[4]]
    assert context.session.epoch == 2


def test_partition_added_and_forgotten_together_is_forgotten() -> None:
    context = opened().fetch_context("g", "m", 1, 7, add=[P[0], P[4]], forget=[P[0], P[4]])
    assert list(context.session.partitions) == [P[1], P[2]]


def test_each_partition_of_a_session_is_answered_once() -> None:
    sessions = opened(partitions=2)
    session = the_session(sessions)
    assert session.pop_unanswered([]) == [P[0], P[1]]
    assert session.pop_unanswered([]) == []
    sessions.fetch_context("g", "m", 1, 7, add=[P[1], P[2], P[3], P[4]], forget=[P[3]])
    assert session.pop_unanswered([P[1], P[3]]) == [P[2], P[4]]  # P[1] is in the session, P[3] is not
    assert session.pop_unanswered([]) == [P[1]]  # its error is over


def test_a_partition_that_was_forgotten_is_answered_again() -> None:
    sessions = opened(partitions=1)
    session = the_session(sessions)
    session.pop_unanswered([])
    sessions.fetch_context("g", "m", 1, 7, forget=[P[0]])
    sessions.fetch_context("g", "m", 2, 7, add=[P[0]])
    assert session.pop_unanswered([]) == [P[0]]


def test_the_order_rotates_with_the_epoch() -> None:
    sessions = opened(partitions=3)
    orders = [sessions.fetch_context("g", "m", epoch, 7).partitions for epoch in (1, 2, 3, 4)]
    assert orders == [[P[1], P[2], P[0]], [P[2], P[0], P[1]], [P[0], P[1], P[2]], [P[1], P[2], P[0]]]


def test_fetch_and_acknowledge_count_one_epoch() -> None:
    sessions = opened()
    assert sessions.fetch_context("g", "m", 1, 7).kind is ContextKind.INCREMENTAL
    assert sessions.acknowledge_context("g", "m", 2, 7).kind is ContextKind.INCREMENTAL
    assert sessions.fetch_context("g", "m", 3, 7).kind is ContextKind.INCREMENTAL


@pytest.mark.parametrize("call", ["fetch", "acknowledge"])
@pytest.mark.parametrize("epoch", [2, LAST_EPOCH, -2, -(2**31)])
def test_any_other_epoch_is_rejected_and_changes_nothing(call: str, epoch: int) -> None:
    sessions = opened()
    with pytest.raises(RequestError) as error:
        getattr(sessions, f"{call}_context")("g", "m", epoch, 9)
    assert code_of(error) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (the_session(sessions).epoch, the_session(sessions).connection_id) == (1, 7)


@pytest.mark.parametrize("call", ["fetch", "acknowledge"])
@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_later_epoch_requires_a_session(call: str, epoch: int) -> None:
    with pytest.raises(RequestError) as error:
        getattr(opened(), f"{call}_context")("g", "another", epoch, 7)
    assert code_of(error) is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("call", ["fetch", "acknowledge"])
def test_the_last_epoch_is_followed_by_1(call: str) -> None:
    sessions = opened()
    the_session(sessions).epoch = LAST_EPOCH
    getattr(sessions, f"{call}_context")("g", "m", LAST_EPOCH, 7)
    assert the_session(sessions).epoch == 1


@pytest.mark.parametrize("call", ["fetch", "acknowledge"])
def test_epoch_minus_1_closes_the_session(call: str) -> None:
    sessions = opened()
    session = the_session(sessions)
    context = getattr(sessions, f"{call}_context")("g", "m", -1, 7)
    assert (context.session, context.kind) == (session, ContextKind.FINAL)
    assert len(sessions) == 0
    assert sessions.evict_connection(7) == []


def test_a_final_fetch_reads_nothing() -> None:
    assert opened().fetch_context("g", "m", -1, 7, add=[P[4]]).partitions == []


def test_a_fetch_cannot_acknowledge_before_its_session_is_open() -> None:
    sessions = opened()
    old = the_session(sessions)
    with pytest.raises(RequestError) as error:
        sessions.fetch_context("g", "m", 0, 7, P, has_acks=True)
    assert code_of(error) is ErrorCode.INVALID_REQUEST
    assert the_session(sessions) is old


def test_acknowledge_cannot_open_a_session() -> None:
    with pytest.raises(RequestError) as error:
        opened().acknowledge_context("g", "m", 0, 7)
    assert code_of(error) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


@pytest.mark.parametrize("call", ["fetch", "acknowledge"])
@pytest.mark.parametrize(("group", "member"), [(None, "m"), ("", "m"), ("g", None), ("g", " "), ("g", "x" * 37)])
def test_ids_are_checked(call: str, group: str | None, member: str | None) -> None:
    with pytest.raises(RequestError) as error:
        getattr(opened(), f"{call}_context")(group, member, 0, 7)
    assert code_of(error) is ErrorCode.INVALID_REQUEST


def test_reopened_session_counts_once_against_the_limit() -> None:
    sessions = opened(limit=1)
    assert sessions.fetch_context("g", "m", 0, 7).kind is ContextKind.NEW
    with pytest.raises(RequestError) as error:
        sessions.fetch_context("g", "another", 0, 8)
    assert code_of(error) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.evict_connection(7)
    assert sessions.fetch_context("g", "another", 0, 8).kind is ContextKind.NEW


def test_a_session_follows_its_member_to_a_new_connection() -> None:
    sessions = opened()
    sessions.fetch_context("g", "m", 1, 8)
    assert sessions.evict_connection(7) == []
    sessions.acknowledge_context("g", "m", 2, 9)
    assert sessions.evict_connection(8) == []
    assert [session.key.member_id for session in sessions.evict_connection(9)] == ["m"]


MEMBERS, CONNECTIONS, LIMIT = ("a", "b", "c"), (1, 2), 2
some_partitions = st.lists(st.sampled_from(P), max_size=3)
fetches = st.tuples(
    st.just("fetch"),
    st.sampled_from(MEMBERS),
    st.integers(-2, 4),
    st.sampled_from(CONNECTIONS),
    some_partitions,
    some_partitions,
    st.booleans(),
)
acknowledgements = st.tuples(
    st.just("acknowledge"), st.sampled_from(MEMBERS), st.integers(-2, 4), st.sampled_from(CONNECTIONS)
)
evictions = st.tuples(st.just("evict"), st.sampled_from(CONNECTIONS))


class Model:
    """A model of the rules as one dict: member -> [epoch, partitions, connection]."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[object]] = {}

    def error(self, call: str, member: str, epoch: int, has_acks: bool = False) -> ErrorCode | None:
        known = self.sessions.get(member)
        if epoch == 0:
            if call == "acknowledge":
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            if has_acks:
                return ErrorCode.INVALID_REQUEST
            full = known is None and len(self.sessions) == LIMIT
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED if full else None
        if known is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        return None if epoch in (-1, known[0]) else ErrorCode.INVALID_SHARE_SESSION_EPOCH

    def apply(self, member: str, epoch: int, connection: int, add: list[object], forget: list[object]) -> None:
        if epoch == -1:
            del self.sessions[member]
            return
        before = [] if epoch == 0 else self.sessions[member][1]
        assert isinstance(before, list)
        named = before + [p for i, p in enumerate(add) if p not in before and p not in add[:i]]
        self.sessions[member] = [epoch + 1, [p for p in named if p not in forget], connection]


@given(st.lists(st.one_of(fetches, acknowledgements, evictions), max_size=30))
def test_sessions_match_the_model(steps: list[tuple[object, ...]]) -> None:
    sessions, model = ShareSessionCache(LIMIT), Model()
    for call, *rest in steps:
        if call == "evict":
            expected = sorted(member for member, known in model.sessions.items() if known[2] == rest[0])
            assert [s.key.member_id for s in sessions.evict_connection(rest[0])] == expected  # type: ignore[arg-type]
            for member in expected:
                del model.sessions[member]
        else:
            take_step(sessions, model, str(call), *rest)
        assert {
            session.key.member_id: [session.epoch, list(session.partitions), session.connection_id]
            for session in (sessions.get("g", member) for member in MEMBERS)
            if session is not None
        } == model.sessions
        assert len(sessions) == len(model.sessions)


def take_step(
    sessions: ShareSessionCache,
    model: Model,
    call: str,
    member: str,
    epoch: int,
    connection: int,
    add: list[object] = [],  # noqa: B006 - never changed
    forget: list[object] = [],  # noqa: B006 - never changed
    has_acks: bool = False,
) -> None:
    more = (add, forget, has_acks) if call == "fetch" else ()
    expected = model.error(call, member, epoch, has_acks)
    if expected is not None:
        with pytest.raises(RequestError) as error:
            getattr(sessions, f"{call}_context")("g", member, epoch, connection, *more)
        assert code_of(error) is expected
        return
    getattr(sessions, f"{call}_context")("g", member, epoch, connection, *more)
    model.apply(member, epoch, connection, add, forget)
