"""Through whom members got their records: which gateways asked for a member's records, and when last.

A requester is a gateway, known by its `reply_to`. A member may have had several of them, one after the other:

- An earlier gateway may tell late that its session with the member has ended, because it finds the connection dead, or
  is stopped. What the member holds through another gateway by then must stay its own.
- A gateway knows which of its own members wait for records. That other gateways' members wait, the job tells it.

Requests for share-partitions that are not loaded yet: the two queries have no common clock, so a member may know of
its assignment before the share-partition's state has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.rows.share_partition_requests import FetchRequest, SharePartitionRequest

#: How often one share-partition's requesters are told that others wait.
TELL_INTERVAL_MS = 500


class Requesters:
    """The requesters of each share-partition's members, and when they were told last that others wait.

    For each member there are the `reply_to` of its fetches that got records since the member was released last, each
    with the newest of their times.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._members: dict[int, dict[str, dict[str, int]]] = {
            int(p): {member: dict(asked) for member, asked in entry[0].items()} for p, entry in dumped.items()
        }
        self._told_ms: dict[int, int] = {int(p): entry[1] for p, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[dict[str, dict[str, int]], int]]:
        """JSON-able; the constructor reads it back."""
        return {str(p): (members, self._told_ms.get(p, 0)) for p, members in self._members.items() if members}

    def acquired(self, partition: int, member_id: str, reply_to: str, asked_ms: int) -> None:
        """A fetch of the member got records: it was appended at `asked_ms`, or is of a session that was opened then."""
        if reply_to != member_id:
            asked = self._asked(partition, member_id)
            asked[reply_to] = max(asked_ms, asked.get(reply_to, 0))

    def ended(self, partition: int, member_id: str, requester: str) -> bool:
        """The requester's session with the member has ended ("": nobody's in particular); whether that is the last.

        While another has got records for the member, what this one leaves behind cannot be told from theirs: it ends by
        its locks, or with them.
        """
        asked = self._members.get(partition, {}).get(member_id, {})
        if not requester or not asked.keys() - {requester}:
            return True
        asked.pop(requester, None)
        return False

    def has_asked_since(self, partition: int, member_id: str, opened_ms: int) -> bool:
        """Whether records were for a fetch of the member since this time: a session that was opened then is old.

        The first fetch of a session may be appended in the millisecond in which that was opened.
        """
        asked = self._members.get(partition, {}).get(member_id, {})
        return 0 <= opened_ms <= max(asked.values(), default=-1)

    def to_tell(self, partition: int, waiting: Collection[str], holds: Callable[[str], bool], now_ms: int) -> list[str]:
        """Who else than those `waiting` has members that hold records, not oftener than each `TELL_INTERVAL_MS`."""
        members = self._members.get(partition, {})
        if now_ms < self._told_ms.get(partition, 0) + TELL_INTERVAL_MS:
            return []
        others = {reply_to for member, asked in members.items() for reply_to in asked if holds(member)} - {*waiting}
        if others:
            self._told_ms[partition] = now_ms
        return sorted(others)

    def forget(self, partition: int, member_id: str) -> None:
        """The member holds nothing here any more."""
        self._members.get(partition, {}).pop(member_id, None)

    def drop(self, partition: int) -> None:
        """The share-partition is not here any more."""
        self._members.pop(partition, None)
        self._told_ms.pop(partition, None)

    def _asked(self, partition: int, member_id: str) -> dict[str, int]:
        return self._members.setdefault(partition, {}).setdefault(member_id, {})


#: How long a request waits for its share-partition to be loaded before it is refused; a fetch not longer than it wants.
PARKED_MS = 10_000

#: Parked rows of one key; what comes on top is refused at once, so that nonsense cannot fill the state.
MAX_PARKED = 1_000


class ParkedRequest(NamedTuple):
    """A row that waits until `until_ms`."""

    row: RequestRow
    until_ms: int


class ParkedRequests:
    """The parked rows of one key, in the order in which they came."""

    def __init__(self, dumped: Sequence[Sequence[Any]]) -> None:
        self._parked = [ParkedRequest(RequestRow(*row), until_ms) for row, until_ms in dumped]

    def dump(self) -> list[ParkedRequest]:
        """JSON-able; the constructor reads it back."""
        return list(self._parked)

    def __bool__(self) -> bool:
        """Whether any row is parked."""
        return bool(self._parked)

    def park(self, row: RequestRow, request: SharePartitionRequest, now_ms: int) -> bool:
        """Let a row wait; False when it has waited long enough, or too many wait."""
        waits_ms = min(request.max_wait_ms, PARKED_MS) if isinstance(request, FetchRequest) else PARKED_MS
        until_ms = row.append_ms + waits_ms
        if now_ms > until_ms or len(self._parked) >= MAX_PARKED:
            return False
        self._parked.append(ParkedRequest(row, until_ms))
        return True

    def take_all(self) -> list[RequestRow]:
        """Hand out all rows, to be tried again."""
        parked, self._parked = self._parked, []
        return [request.row for request in parked]

    def deadlines_ms(self) -> Iterator[int]:
        """When a row has waited long enough."""
        return (request.until_ms for request in self._parked)
