"""The transition table of a record in flight, with the causes that allow each transition.

::

      AVAILABLE --+--> ACQUIRED      fetch, reserve; assign (**)
                  +--> AVAILABLE     unacquire (*)
                  +--> ARCHIVED      log_truncated, reset, topic_deleted

      ACQUIRED ---+--> ACQUIRED      renew, which sets a new lock deadline; reserve, which sets a new holder; assign
                  +--> AVAILABLE     release, lock_timeout, member_left, unacquire, unreserve
                  +--> ACKNOWLEDGED  accept
                  +--> ARCHIVED      reject, gap;
                                     release, lock_timeout, member_left, at the delivery count limit;
                                     log_truncated, reset, topic_deleted

(*) The lock expired or the member left before the records were sent to it, so the delivery count goes down by one.
(**) A member has released the records, and its gateway assigns them to a waiting member.

A *reserved* record is ACQUIRED with delivery count 0: a gateway holds it for its members (`reservation`). Only the
causes reserve, assign and unreserve apply to a reserved record. It also leaves the window when the log is truncated,
the offsets are reset, or the topic is deleted. No arrow leaves ACKNOWLEDGED or ARCHIVED (KIP-932, "In-flight records").
A test compares the arrows with `TRANSITIONS`.
"""

from __future__ import annotations

from typing import Final

from sharegroup.errors import IllegalTransitionError
from sharegroup.types import Cause, RecordState

AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED

#: For each pair (old state, new state), the causes that allow this transition. Every other transition is illegal.
TRANSITIONS: Final[dict[tuple[RecordState, RecordState], frozenset[Cause]]] = {
    (AVAILABLE, ACQUIRED): frozenset({Cause.FETCH, Cause.RESERVE, Cause.ASSIGN}),
    (AVAILABLE, ARCHIVED): frozenset({Cause.LOG_TRUNCATED, Cause.RESET, Cause.TOPIC_DELETED}),
    (AVAILABLE, AVAILABLE): frozenset({Cause.UNACQUIRE}),
    (ACQUIRED, ACQUIRED): frozenset({Cause.RENEW, Cause.RESERVE, Cause.ASSIGN}),
    (ACQUIRED, AVAILABLE): frozenset(
        {Cause.RELEASE, Cause.LOCK_TIMEOUT, Cause.MEMBER_LEFT, Cause.UNACQUIRE, Cause.UNRESERVE}
    ),
    (ACQUIRED, ACKNOWLEDGED): frozenset({Cause.ACCEPT}),
    (ACQUIRED, ARCHIVED): frozenset(
        {
            Cause.REJECT,
            Cause.GAP,
            Cause.RELEASE,
            Cause.LOCK_TIMEOUT,
            Cause.MEMBER_LEFT,
            Cause.LOG_TRUNCATED,
            Cause.RESET,
            Cause.TOPIC_DELETED,
        }
    ),
}


def check_transition(from_state: RecordState, to_state: RecordState, cause: Cause) -> None:
    """Raise IllegalTransitionError unless `TRANSITIONS` allows this transition for `cause`."""
    if cause not in TRANSITIONS.get((from_state, to_state), ()):
        raise IllegalTransitionError(
            f"transition {from_state.name} -> {to_state.name} is illegal for cause {cause.value}"
        )
