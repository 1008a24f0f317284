"""The gateways through which members acquired records, and requests for share-partitions that are not loaded yet.

A *requester* sends request rows and reads the responses by its `reply_to`. It is a gateway, or a member without a
gateway. A member can use several gateways, one after the other. The job stores a member's gateways for two reasons:

- An earlier gateway may report late that its session with the member has ended, for example when it detects a dead
  connection. Records that the member has acquired through another gateway by then must stay acquired.
- A gateway can detect that its own members wait for records, but not that members of other requesters wait. If a
  gateway's members hold records meanwhile, the job notifies the gateway.

A request may arrive before its share-partition is loaded. The two streaming queries are not synchronised, so a member
may receive its assignment before the state of the share-partition has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.rows.share_partition_requests import FetchRequest, SharePartitionRequest

#: The minimum time in ms between two `wanted` notices of a share-partition, which report that other members wait.
NOTIFY_INTERVAL_MS = 500


class Requesters:
    """The gateways of each member, and the time of the last `wanted` notice, by share-partition.

    For each member, the gateways through which it got records are stored, with the append time of the newest fetch or
    assignment. If these rows contain a member epoch, the highest epoch is stored too. The entry of a member is removed
    when its records are released.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._members: dict[int, dict[str, dict[str, int]]] = {
            int(p): {member: dict(asked) for member, asked in entry[0].items()} for p, entry in dumped.items()
        }
        self._notified_ms: dict[int, int] = {int(p): entry[1] for p, entry in dumped.items()}
        self._epochs: dict[int, dict[str, int]] = {int(p): dict(*entry[2:]) for p, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[dict[str, dict[str, int]], int, dict[str, int]]]:
        """Return the entries as JSON-able values for the constructor."""
        parts: tuple[Mapping[int, object], ...] = self._members, self._notified_ms, self._epochs
        known = {p for part in parts for p, value in part.items() if value}
        return {
            str(p): (self._members.get(p, {}), self._notified_ms.get(p, 0), self._epochs.get(p, {}))
            for p in sorted(known)
        }

    def record_acquisition(
        self, partition: int, member_id: str, reply_to: str, asked_ms: int, member_epoch: int = -1
    ) -> None:
        """Record that the member got records through the requester `reply_to`, by a fetch or an assignment.

        `asked_ms` is the append time of the row with the fetch or assignment. If the fetch contains a later time at
        which its session was opened, `asked_ms` is this time. For a member that is its own requester, only the epoch is
        recorded.
        """
        if member_epoch >= 0:
            epochs = self._epochs.setdefault(partition, {})
            epochs[member_id] = max(member_epoch, epochs.get(member_id, -1))
        if reply_to != member_id:
            times = self._requester_times(partition, member_id)
            times[reply_to] = max(asked_ms, times.get(reply_to, 0))

    def end_session(self, partition: int, member_id: str, requester: str, append_ms: int) -> bool:
        """End the member's session with a gateway, and return whether the caller must release the member's records.

        The result is True if the member has no other session, or if `requester` is "" (all sessions end). If another
        session is left, the records stay acquired until their locks expire or that session ends, because the job does
        not store through which gateway a record was acquired.

        `append_ms` is the append time of the row that ends the session. If a fetch of the requester that was appended
        later got records, the result is False and the session stays. That fetch belongs to a later session, and the end
        of the earlier session was read late, from another partition of the request topic.
        """
        times = self._members.get(partition, {}).get(member_id, {})
        if append_ms < times.get(requester, -1):
            return False
        if not requester or not times.keys() - {requester}:
            return True
        times.pop(requester, None)
        return False

    def has_acquired_through(self, partition: int, member_id: str, requester: str) -> bool:
        """Return whether the member is known to have acquired records through the requester.

        After a start without a checkpoint, this is unknown for the records acquired before, and the result is False.
        """
        return requester in self._members.get(partition, {}).get(member_id, {})

    def has_fetched_since(self, partition: int, member_id: str, opened_ms: int) -> bool:
        """Return whether the member has got records by a fetch or assignment that was appended at or after `opened_ms`.

        If so, a request about the session that was opened at `opened_ms` is outdated. The comparison includes
        `opened_ms`, because the first fetch of a session may be appended in the same millisecond.
        """
        times = self._members.get(partition, {}).get(member_id, {})
        return 0 <= opened_ms <= max(times.values(), default=-1)

    def has_acquired_after(self, partition: int, member_id: str, member_epoch: int) -> bool:
        """Return whether the member has acquired records with a higher epoch, because it has joined again.

        If so, the request to release the member with `member_epoch` was read late, from another partition of the
        request topic. The result is False if `member_epoch` is -1 (unknown).
        """
        return 0 <= member_epoch < self._epochs.get(partition, {}).get(member_id, -1)

    def requesters_to_notify(
        self,
        partition: int,
        waiting: Collection[str],
        holds: Callable[[str], bool],
        now_ms: int,
        reservers: Collection[str] = (),
    ) -> list[str]:
        """Return the gateways, sorted, that must be notified because members of other requesters wait for records.

        `waiting` are the requesters of the waiting members. `holds` returns whether a member holds records. The result
        has the gateways of all members that hold records, and the gateways `reservers`, which hold reserved offsets.
        Requesters in `waiting` are left out.

        The call stores `now_ms` as the time of the notice, so the caller must notify all returned gateways. The result
        is empty if the last notice was sent less than `NOTIFY_INTERVAL_MS` ago.
        """
        members = self._members.get(partition, {})
        if now_ms < self._notified_ms.get(partition, 0) + NOTIFY_INTERVAL_MS:
            return []
        holding = {reply_to for member, times in members.items() for reply_to in times if holds(member)}
        others = {*holding, *reservers} - {*waiting}
        if others:
            self._notified_ms[partition] = now_ms
        return sorted(others)

    def remove_member(self, partition: int, member_id: str) -> None:
        """Remove a member that no longer holds records of the share-partition."""
        self._members.get(partition, {}).pop(member_id, None)
        self._epochs.get(partition, {}).pop(member_id, None)

    def remove_partition(self, partition: int) -> None:
        """Remove the entries of a share-partition that this shard no longer has."""
        self._members.pop(partition, None)
        self._notified_ms.pop(partition, None)
        self._epochs.pop(partition, None)

    def _requester_times(self, partition: int, member_id: str) -> dict[str, int]:
        return self._members.setdefault(partition, {}).setdefault(member_id, {})


#: Time in ms after which a request is rejected if its share-partition is still not loaded. A fetch does not wait longer
#: than its MaxWaitMs.
PENDING_MS = 10_000

#: Maximum number of pending rows of a shard. Further rows are rejected, so that invalid requests cannot fill the state.
MAX_PENDING = 1_000


class PendingRequest(NamedTuple):
    """A request row that waits for its share-partition to be loaded. It is rejected after `until_ms`."""

    row: RequestRow
    until_ms: int


class PendingRequests:
    """The request rows of one shard that wait for share-partitions to be loaded, in the order of their arrival."""

    def __init__(self, dumped: Sequence[Sequence[Any]]) -> None:
        self._pending = [PendingRequest(RequestRow(*row), until_ms) for row, until_ms in dumped]

    def dump(self) -> list[PendingRequest]:
        """Return the rows as JSON-able values for the constructor."""
        return list(self._pending)

    def __bool__(self) -> bool:
        """Return whether any row is pending."""
        return bool(self._pending)

    def add(self, row: RequestRow, request: SharePartitionRequest, now_ms: int) -> bool:
        """Add a row and return True. If it has waited too long or too many rows are pending, only return False."""
        waits_ms = min(request.max_wait_ms, PENDING_MS) if isinstance(request, FetchRequest) else PENDING_MS
        until_ms = row.append_ms + waits_ms
        if now_ms > until_ms or len(self._pending) >= MAX_PENDING:
            return False
        self._pending.append(PendingRequest(row, until_ms))
        return True

    def pop_all(self) -> list[RequestRow]:
        """Remove and return all rows, so that the caller can process them again."""
        pending, self._pending = self._pending, []
        return [request.row for request in pending]

    def deadlines_ms(self) -> Iterator[int]:
        """Return the times until which the rows wait."""
        return (request.until_ms for request in self._pending)
