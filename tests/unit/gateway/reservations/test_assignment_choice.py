"""Who gets the records that have arrived."""

from __future__ import annotations

from sharegroup.gateway.reservations.assignment_choice import Candidate, choose_members
from sharegroup.types import OffsetRange


def chosen(*ranges: tuple[int, int], rooms: dict[str, int], at_least: int = 1) -> dict[str, list[tuple[int, int]]]:
    candidates = [Candidate(member, room) for member, room in rooms.items()]
    found = choose_members([OffsetRange(*each) for each in ranges], candidates, at_least)
    return {assignment.member: [tuple(each) for each in assignment.ranges] for assignment in found}


def test_records_are_divided_evenly_and_in_order() -> None:
    assert chosen((0, 9), rooms={"a": 99, "b": 99, "c": 99}) == {"a": [(0, 3)], "b": [(4, 6)], "c": [(7, 9)]}


def test_few_records_go_to_the_member_that_was_served_least_recently() -> None:
    assert chosen((5, 9), rooms={"a": 99, "b": 99}, at_least=20) == {"a": [(5, 9)]}


def test_member_gets_no_more_than_it_has_room_for() -> None:
    assert chosen((0, 9), rooms={"a": 2, "b": 3, "c": 0}) == {"a": [(0, 1)], "b": [(2, 4)]}
    assert chosen((0, 9), rooms={"a": 2, "b": 99}) == {"a": [(0, 1)], "b": [(2, 9)]}


def test_shares_cross_holes() -> None:
    assert chosen((0, 2), (7, 9), rooms={"a": 99, "b": 99}, at_least=4) == {"a": [(0, 2), (7, 7)], "b": [(8, 9)]}


def test_nobody_gets_nothing() -> None:
    assert chosen(rooms={"a": 9}) == {}
    assert chosen((0, 2), rooms={}) == {}
