"""The share sessions of one node, that is, of a gateway's port for one broker (KIP-932, "Share sessions").

A session stores the partitions that a member fetches from this node, so that later requests contain only changes. A
fetch with epoch 0 opens a session. Later requests must contain the session's current epoch, or -1 to close the session:

    request epoch    ShareFetch                                            ShareAcknowledge
    0                opens a session and drops the previous one            INVALID_SHARE_SESSION_EPOCH
    n >= 1           must be the session's epoch, which then rises by one  the same
    -1               acknowledges, releases records, closes the session    the same

A session belongs to the connection of its last request. When this connection closes, the session ends, and the caller
releases the member's records. Sessions are not durable. After the end of a session, the member opens a new one with
epoch 0. The module has no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.row_fields import MAX_MEMBER_ID_LENGTH
from sharegroup.protocol.short_names import LONGEST, shorten_name

if TYPE_CHECKING:
    from uuid import UUID

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 2**31 - 1
#: Maximum number of partitions in a session. There is a limit because each fetch iterates over all partitions. It is
#: higher than the number of partitions that a broker should lead (Kafka recommends 4,000).
MAX_PARTITIONS = 10_000


class TopicIdPartition(NamedTuple):
    """A topic id and a partition, which identify a partition in the share RPCs."""

    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    """The group id and the member id of a session, as the member sent them."""

    group_id: str
    member_id: str

    @property
    def shortened(self) -> SessionKey:
        """The key, in which a digest replaces each id of more than `LONGEST` characters.

        State that outlives a request uses this key, so that clients cannot make the state large.
        """
        if len(self.group_id) + len(self.member_id) <= LONGEST:
            return self
        return SessionKey(shorten_name(self.group_id), shorten_name(self.member_id))


class ContextKind(Enum):
    """The effect of a request on its session: NEW opens it, INCREMENTAL continues it, FINAL closes it."""

    NEW = "new"
    INCREMENTAL = "incremental"
    FINAL = "final"


@dataclass(eq=False)
class ShareSession:
    """The share session of one member.

    Attributes:
        key: The group and the member.
        connection_id: The connection of its last request.
        epoch: The epoch that its next request must contain.
        partitions: The partitions that the member fetches, as an ordered set.
        unanswered: The partitions that must have an entry in the next response, even if there are no records
            for them. As in Kafka, these are new partitions, which have had no entry yet, and partitions whose last
            entry had an error.
    """

    key: SessionKey
    connection_id: int
    epoch: int = 1
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    unanswered: dict[TopicIdPartition, None] = field(default_factory=dict)

    def pop_unanswered(self, failed: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
        """Return the partitions in `unanswered`. The caller must add an entry for each to the current response.

        `failed` are the partitions that have an error in the current response. Those of them that are still in the
        session become the new `unanswered`, so the next response must have an entry for each.
        """
        answered = list(self.unanswered)
        self.unanswered = dict.fromkeys(key for key in failed if key in self.partitions)
        return answered

    def rotated_partitions(self, epoch: int) -> list[TopicIdPartition]:
        """Return the partitions, rotated by the epoch of the request, so that each of them is read first in turn."""
        partitions = list(self.partitions)
        if epoch < 1 or len(partitions) < 2:
            return partitions
        start = epoch % len(partitions)
        return partitions[start:] + partitions[:start]


class FetchContext(NamedTuple):
    """The session of a ShareFetch request, and the partitions to read for it.

    Attributes:
        session: The session of the request. If `kind` is FINAL, it is already closed, and the caller must release the
            member's records.
        kind: The effect of the request on the session.
        partitions: The partitions to read, in this order. Empty if `kind` is FINAL.
        dropped: The session that a NEW session replaced, if any. The caller must release the records of its member.
    """

    session: ShareSession
    kind: ContextKind
    partitions: list[TopicIdPartition]
    dropped: ShareSession | None = None


class AcknowledgeContext(NamedTuple):
    """The session of a ShareAcknowledge request. `kind` is INCREMENTAL or FINAL, as in `FetchContext`."""

    session: ShareSession
    kind: ContextKind


class ShareSessionCache:
    """All share sessions of one node, at most `limit` (`group.share.max.share.sessions`)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        #: Number of sessions that ended with their connection.
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The total number of partitions in all sessions."""
        return sum(len(session.partitions) for session in list(self._sessions.values()))

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the member's session; None if it has no session."""
        return self._sessions.get(SessionKey(group_id, member_id))

    def fetch_context(
        self,
        group_id: str | None,
        member_id: str | None,
        epoch: int,
        connection_id: int,
        add: Iterable[TopicIdPartition] = (),
        forget: Iterable[TopicIdPartition] = (),
        has_acks: bool = False,
    ) -> FetchContext:
        """Open, continue or close a session for a ShareFetch request, and return its context.

        `add` are the partitions to add to the session, and `forget` those to remove from it. `has_acks` is whether the
        request acknowledges records. Raises RequestError without changing the session:
        - INVALID_REQUEST for an invalid group or member id, for acknowledgements with epoch 0, or if the session would
          have more than `MAX_PARTITIONS` partitions
        - SHARE_SESSION_LIMIT_REACHED, SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH, as in the KIP
        """
        key = _checked_key(group_id, member_id)
        add, forget = tuple(add), tuple(forget)
        _check_size({} if epoch == INITIAL_EPOCH else self._partitions(key), add, forget)
        if epoch == INITIAL_EPOCH:
            return self._open(key, connection_id, add, forget, has_acks)
        session, kind = self._continue(key, epoch, connection_id)
        if kind is ContextKind.FINAL:
            return FetchContext(session, kind, [])
        _update(session, add, forget)
        return FetchContext(session, kind, session.rotated_partitions(epoch))

    def acknowledge_context(
        self, group_id: str | None, member_id: str | None, epoch: int, connection_id: int
    ) -> AcknowledgeContext:
        """Continue or close a session for a ShareAcknowledge request, and return its context.

        Raises RequestError without changing the session:
        - INVALID_REQUEST for an invalid group or member id
        - INVALID_SHARE_SESSION_EPOCH for a wrong epoch, or for 0, because this request cannot open a session
        - SHARE_SESSION_NOT_FOUND if the member has no session
        """
        key = _checked_key(group_id, member_id)
        if epoch == INITIAL_EPOCH:
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge cannot open a share session")
        return AcknowledgeContext(*self._continue(key, epoch, connection_id))

    def evict_connection(self, connection_id: int) -> list[ShareSession]:
        """Remove and return the sessions of a closed connection, and add their number to `evictions`.

        The caller must release the records of their members.
        """
        keys = self._by_connection.pop(connection_id, set())
        self.evictions += len(keys)
        return [self._sessions.pop(key) for key in sorted(keys)]

    def _partitions(self, key: SessionKey) -> Mapping[TopicIdPartition, None]:
        session = self._sessions.get(key)
        return {} if session is None else session.partitions

    def _open(
        self,
        key: SessionKey,
        connection_id: int,
        add: Iterable[TopicIdPartition],
        forget: Iterable[TopicIdPartition],
        has_acks: bool,
    ) -> FetchContext:
        if has_acks:
            raise RequestError(ErrorCode.INVALID_REQUEST, "a fetch that opens a session cannot acknowledge records")
        if key not in self._sessions and len(self._sessions) >= self._limit:
            raise RequestError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"the node already has {self._limit} share sessions, its maximum"
            )
        dropped = self._remove(key)
        session = self._sessions[key] = ShareSession(key, connection_id)
        self._by_connection.setdefault(connection_id, set()).add(key)
        _update(session, add, forget)
        return FetchContext(session, ContextKind.NEW, session.rotated_partitions(INITIAL_EPOCH), dropped)

    def _continue(self, key: SessionKey, epoch: int, connection_id: int) -> tuple[ShareSession, ContextKind]:
        session = self._sessions.get(key)
        if session is None:
            raise RequestError(
                ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} has no share session at this node"
            )
        if epoch == FINAL_EPOCH:
            self._remove(key)
            return session, ContextKind.FINAL
        if epoch != session.epoch:
            problem = f"the share session expects epoch {session.epoch}, but the request has epoch {epoch}"
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, problem)
        session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        self._move(session, connection_id)
        return session, ContextKind.INCREMENTAL

    def _move(self, session: ShareSession, connection_id: int) -> None:
        """Assign the session to the connection of its last request.

        The session therefore does not end when its previous connection closes.
        """
        if session.connection_id != connection_id:
            self._leave_connection(session)
            session.connection_id = connection_id
            self._by_connection.setdefault(connection_id, set()).add(session.key)

    def _remove(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._leave_connection(session)
        return session

    def _leave_connection(self, session: ShareSession) -> None:
        keys = self._by_connection[session.connection_id]
        keys.discard(session.key)
        if not keys:
            del self._by_connection[session.connection_id]


def _check_size(
    partitions: Mapping[TopicIdPartition, None], add: Collection[TopicIdPartition], forget: Collection[TopicIdPartition]
) -> None:
    if len(partitions) + len(add) > MAX_PARTITIONS and len((partitions.keys() | add) - set(forget)) > MAX_PARTITIONS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"a share session has at most {MAX_PARTITIONS} partitions; fetch fewer of them"
        )


def _update(session: ShareSession, add: Iterable[TopicIdPartition], forget: Iterable[TopicIdPartition]) -> None:
    """Add and remove partitions of a session.

    A partition that is in both `add` and `forget` is removed. Its entry in `add` only carries acknowledgements.
    """
    for partition in add:
        if partition not in session.partitions:
            session.partitions[partition] = session.unanswered[partition] = None
    for partition in forget:
        session.partitions.pop(partition, None)
        session.unanswered.pop(partition, None)


def _checked_key(group_id: str | None, member_id: str | None) -> SessionKey:
    if not group_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the group id is missing")
    if member_id is None or not member_id.strip() or len(member_id) > MAX_MEMBER_ID_LENGTH:
        problem = f"the member id is missing or longer than {MAX_MEMBER_ID_LENGTH} characters"
        raise RequestError(ErrorCode.INVALID_REQUEST, problem)
    return SessionKey(group_id, member_id)
