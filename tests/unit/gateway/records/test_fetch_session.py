"""Incremental fetch sessions: which partitions a request names."""

from __future__ import annotations

from uuid import UUID

from sharegroup.gateway.records.batch_cache import CacheKey
from sharegroup.gateway.records.fetch_session import FetchSession

A, B = CacheKey(UUID(int=1), 0, False), CacheKey(UUID(int=1), 1, False)


def open_session() -> FetchSession:
    """Return a session in which the broker knows both partitions at offset 5."""
    session = FetchSession()
    session.set_offset(A, 5)
    session.set_offset(B, 5)
    assert session.next_step() == (0, 0, {A: 5, B: 5}, [], {A: 5, B: 5})
    session.on_response(77)
    return session


def test_later_requests_name_changes_only() -> None:
    session = open_session()
    session.set_offset(B, 9)
    assert session.next_step() == (77, 1, {B: 9}, [], {A: 5, B: 9})
    session.on_response(77)
    assert session.next_step() == (77, 2, {}, [], {A: 5, B: 9})


def test_removed_partition_is_forgotten_once() -> None:
    session = open_session()
    session.remove(A)
    assert session.next_step() == (77, 1, {}, [A], {B: 5})
    session.on_response(77)
    assert session.next_step() == (77, 2, {}, [], {B: 5})
    assert (session.partitions(), session.offset(A), session.offset(B)) == ([B], None, 5)


def test_lost_session_begins_again_with_all_partitions() -> None:
    session = open_session()
    session.next_step()
    session.reset()
    assert session.next_step() == (0, 0, {A: 5, B: 5}, [], {A: 5, B: 5})


def test_broker_without_sessions_gets_all_partitions_each_time() -> None:
    session = FetchSession()
    session.set_offset(A, 5)
    session.next_step()
    session.on_response(0)
    assert session.next_step() == (0, 0, {A: 5}, [], {A: 5})


def test_session_is_empty_without_partitions() -> None:
    session = FetchSession()
    assert not session
    session.set_offset(A, 5)
    assert session
