"""The transition table of a record in flight: which state may follow which, and why.

::

                     fetch
      AVAILABLE  ------------>  ACQUIRED  --+  renew (same state, new lock deadline)
        | | ^    <------------     |   ^----+
        | +-+ release, lock_timeout,
        | (*) member_left, unacquire
        |                          +----> ACKNOWLEDGED   accept
        |                          |
        +------------------------> +----> ARCHIVED       reject, gap; release, lock_timeout and member_left
            log_truncated, reset,                        at the delivery count limit; log_truncated, reset,
            topic_deleted                                topic_deleted

(*) unacquire, when a lock ran out before its owner could be sent the records: the count goes down by one.
No transition leaves ACKNOWLEDGED or ARCHIVED (KIP-932, "In-flight records").
"""

from __future__ import annotations

from typing import Final

from sharegroup.errors import IllegalTransitionError
from sharegroup.types import Cause, RecordState

AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED

#: The causes that may lead from the first state to the second; what is not here does not exist.
TRANSITIONS: Final[dict[tuple[RecordState, RecordState], frozenset[Cause]]] = {
    (AVAILABLE, ACQUIRED): frozenset({Cause.FETCH}),
    (AVAILABLE, ARCHIVED): frozenset({Cause.LOG_TRUNCATED, Cause.RESET, Cause.TOPIC_DELETED}),
    (AVAILABLE, AVAILABLE): frozenset({Cause.UNACQUIRE}),
    (ACQUIRED, ACQUIRED): frozenset({Cause.RENEW}),
    (ACQUIRED, AVAILABLE): frozenset({Cause.RELEASE, Cause.LOCK_TIMEOUT, Cause.MEMBER_LEFT, Cause.UNACQUIRE}),
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
    """Raise IllegalTransitionError unless the table has `from_state` to `to_state` for `cause`."""
    if cause not in TRANSITIONS.get((from_state, to_state), ()):
        raise IllegalTransitionError(f"{from_state.name} -> {to_state.name} because of {cause.value}")
