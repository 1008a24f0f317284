"""The transition table; transitions outside of it cannot be replayed."""

from __future__ import annotations

import re
from itertools import product

import pytest

from sharegroup.core.share_partition import Outcome, SharePartition, record_state
from sharegroup.core.share_partition.record_state import TRANSITIONS, check_transition
from sharegroup.errors import IllegalTransitionError
from sharegroup.types import Cause, RecordState, StateBatch, Transition

A, Q, K, X = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

LEGAL = {
    (A, Q, Cause.FETCH),
    (A, Q, Cause.RESERVE),
    (A, Q, Cause.ASSIGN),
    (Q, Q, Cause.RENEW),
    (Q, Q, Cause.RESERVE),
    (Q, Q, Cause.ASSIGN),
    (A, A, Cause.UNACQUIRE),
    (Q, K, Cause.ACCEPT),
    (Q, A, Cause.RELEASE),
    (Q, A, Cause.LOCK_TIMEOUT),
    (Q, A, Cause.MEMBER_LEFT),
    (Q, A, Cause.UNACQUIRE),
    (Q, A, Cause.UNRESERVE),
    (Q, X, Cause.GAP),
    (Q, X, Cause.REJECT),
    (Q, X, Cause.RELEASE),
    (Q, X, Cause.LOCK_TIMEOUT),
    (Q, X, Cause.MEMBER_LEFT),
    (Q, X, Cause.LOG_TRUNCATED),
    (Q, X, Cause.RESET),
    (Q, X, Cause.TOPIC_DELETED),
    (A, X, Cause.LOG_TRUNCATED),
    (A, X, Cause.RESET),
    (A, X, Cause.TOPIC_DELETED),
}


def test_the_table_has_the_legal_transitions_and_no_others() -> None:
    assert {(*states, cause) for states, causes in TRANSITIONS.items() for cause in causes} == LEGAL


def drawn_transitions() -> set[tuple[RecordState, RecordState, str]]:
    """Return the arrows of the module's diagram; a line without an arrow continues the previous one."""
    diagram = (record_state.__doc__ or "").split("::\n", 1)[1].split("(*) The", 1)[0]
    arrow = re.compile(r"(?:([A-Z]+) -+)?\+--> ([A-Z]+) +(.*)")
    from_state = to_state = ""
    drawn = set()
    for line in filter(None, map(str.strip, diagram.splitlines())):
        causes = line
        if found := arrow.fullmatch(line):
            from_state, to_state, causes = found[1] or from_state, found[2], found[3]
        for said in re.split("[,;] ?", causes):
            cause = re.sub(r" \(\*+\)$", "", said)
            if re.fullmatch("[a-z_]+", cause):  # the rest is remarks, of more than one word
                drawn.add((RecordState[from_state], RecordState[to_state], cause))
    return drawn


def test_the_diagram_has_the_arrows_of_the_table() -> None:
    assert drawn_transitions() == {(*states, cause.value) for states, causes in TRANSITIONS.items() for cause in causes}


@pytest.mark.parametrize(("from_state", "to_state"), list(product(RecordState, RecordState)))
def test_transitions_outside_the_table_are_rejected(from_state: RecordState, to_state: RecordState) -> None:
    for cause in Cause:
        if (from_state, to_state, cause) in LEGAL:
            check_transition(from_state, to_state, cause)
        else:
            with pytest.raises(IllegalTransitionError, match=f"{from_state.name} -> {to_state.name}"):
                check_transition(from_state, to_state, cause)


def test_no_transition_leaves_a_terminal_state() -> None:
    assert not [states for states in TRANSITIONS if states[0].is_terminal]


@pytest.mark.parametrize(
    "bad",
    [
        Transition(0, 4, Q, K, Cause.REJECT, "m1", 1),  # not in the table
        Transition(3, 6, Q, K, Cause.ACCEPT, "m1", 1),  # partly in another state
        Transition(8, 12, Q, A, Cause.RELEASE, "m1", 1),  # partly unknown
        Transition(5, 9, A, Q, Cause.FETCH, "m1", 2, 100),  # terminal
    ],
)
def test_an_illegal_transition_changes_nothing_nor_do_those_before_it(bad: Transition) -> None:
    partition = SharePartition.load(0, [StateBatch(0, 4, Q, 1, "m1", 100), StateBatch(5, 9, X, 1)], 0, 20)
    before = partition.dump()
    with pytest.raises(IllegalTransitionError):
        partition.replay(Outcome((Transition(0, 4, Q, K, Cause.ACCEPT, "m1", 1), bad)))
    assert partition.dump() == before


def test_records_below_the_start_offset_cannot_be_fetched_again() -> None:
    partition = SharePartition(10, 0, 20)
    with pytest.raises(IllegalTransitionError):
        partition.replay(Outcome((Transition(5, 9, A, Q, Cause.FETCH, "m1", 1, 100),)))
    assert partition.state_batches() == []
