"""Deadlines of many keys, compared with a dict that is scanned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.job.clock.deadlines import Deadlines

TIMES = st.integers(0, 20)
STEPS = st.lists(
    st.tuples(st.just("set"), st.sampled_from("abcd"), st.none() | TIMES)
    | st.tuples(st.just("due"), st.just(""), TIMES)
    | st.tuples(st.just("first"), st.just(""), st.none()),
    max_size=60,
)


@given(st.dictionaries(st.sampled_from("abcd"), TIMES), STEPS)
def test_deadlines_equal_a_dict(start: dict[str, int], steps: list[tuple[str, str, int | None]]) -> None:
    deadlines, plain = Deadlines(start), dict(start)
    for what, key, time_ms in steps:
        if what == "set":
            deadlines.set(key, time_ms)
            plain.pop(key, None)
            plain |= {} if time_ms is None else {key: time_ms}
        elif what == "due":
            assert time_ms is not None
            assert deadlines.due_keys(time_ms) == sorted(each for each, at in plain.items() if at < time_ms)
        else:
            assert deadlines.first_ms == min(plain.values(), default=None)
        assert deadlines.as_dict() == plain


def test_deadlines_that_are_set_again_and_again_need_no_more_memory() -> None:
    deadlines = Deadlines({"a": 0, "b": 0})
    for time_ms in range(10_000):
        deadlines.set("a", time_ms)
    assert len(deadlines._heap) < 200
    assert deadlines.first_ms == 0
