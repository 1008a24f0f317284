"""The queue with turns by address."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.clients.fair_turns import FairTurns


def anybody(address: str, item: int) -> bool:
    return True


def turns(*waiting: tuple[str, int]) -> FairTurns[int]:
    found: FairTurns[int] = FairTurns()
    for address, item in waiting:
        found.add(address, item)
    return found


def test_many_items_of_one_address_delay_another_by_one_turn() -> None:
    waiting = turns(*(("rude", number) for number in range(1_000)), ("good", -1))
    assert [waiting.pop_first(anybody) for _ in range(4)] == [0, -1, 1, 2]
    assert len(waiting) == 997


def test_items_of_one_address_stay_in_order() -> None:
    waiting = turns(("a", 1), ("b", 2), ("a", 3), ("b", 4))
    assert [waiting.pop_first(anybody) for _ in range(5)] == [1, 2, 3, 4, None]


def test_address_whose_first_item_is_not_allowed_is_skipped() -> None:
    waiting = turns(("a", 1), ("a", 2), ("b", 3))
    assert waiting.pop_first(lambda address, item: item != 1) == 3
    assert waiting.pop_first(lambda address, item: item != 1) is None
    assert waiting.pop_first(anybody) == 1


def test_discarded_item_is_not_returned() -> None:
    waiting = turns(("a", 1), ("a", 2), ("b", 3))
    waiting.discard("a", 1)
    waiting.discard("b", 3)
    waiting.discard("b", 3)
    waiting.discard("c", 4)
    assert [waiting.pop_first(anybody), waiting.pop_first(anybody)] == [2, None]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=30))
def test_no_address_has_two_turns_while_another_waits(waiting: list[tuple[str, int]]) -> None:
    numbered = [(address, place * 10 + item) for place, (address, item) in enumerate(waiting)]
    address_of = {item: address for address, item in numbered}
    left = turns(*numbered)
    served = [item for _ in numbered if (item := left.pop_first(anybody)) is not None]
    assert sorted(served) == sorted(address_of)
    for place, (one, following) in enumerate(pairwise(served)):
        if address_of[one] == address_of[following]:
            assert {address_of[item] for item in served[place:]} == {address_of[one]}
