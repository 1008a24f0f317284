"""The share sessions of one gateway node (KIP-932, "Share sessions"). PURE: no clock, no I/O.

A session is what a member fetches from this node, so that its requests name only what changed. It is opened by a fetch
with epoch 0, and then counted along by fetches and acknowledgements together:

    request epoch    ShareFetch                              ShareAcknowledge
    0                opens; an older session is dropped      INVALID_SHARE_SESSION_EPOCH
    n >= 1           the session's epoch, which goes up      the same
    -1               acknowledges, releases, closes          the same

A session belongs to the connection of its last request: when that closes, the session goes, and its member's records
are to be released. It holds nothing durable: a member whose session is gone opens another with epoch 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.wire.short_names import LONGEST, short

if TYPE_CHECKING:
    from uuid import UUID

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 2**31 - 1
MAX_MEMBER_ID_LENGTH = 36
#: Partitions of one session: more than a broker should lead (Kafka recommends 4,000). Each fetch looks at all of them.
MAX_PARTITIONS = 10_000


class TopicIdPartition(NamedTuple):
    """A partition as the share RPCs name it."""

    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str

    @property
    def shortened(self) -> SessionKey:
        """The key of what is remembered of members after their requests."""
        if len(self.group_id) + len(self.member_id) <= LONGEST:
            return self
        return SessionKey(short(self.group_id), short(self.member_id))


class ContextKind(Enum):
    """What a request did to its session."""

    NEW = "new"
    INCREMENTAL = "incremental"
    FINAL = "final"


@dataclass(eq=False)
class ShareSession:
    """One member's session; `epoch` is the one that its next request must have.

    `unanswered` are the partitions that the next response of the session has an entry for, also without records: as in
    Kafka, those that had no entry since they were added, and those whose last entry had an error.
    """

    key: SessionKey
    connection_id: int
    epoch: int = 1
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    unanswered: dict[TopicIdPartition, None] = field(default_factory=dict)

    def answer(self, failed: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
        """Return the unanswered partitions for a response, in which the partitions `failed` have an error."""
        answered = list(self.unanswered)
        self.unanswered = dict.fromkeys(key for key in failed if key in self.partitions)
        return answered

    def in_turn(self, epoch: int) -> list[TopicIdPartition]:
        """The partitions, rotated left by the request's epoch: so each comes first in its turn, and none is starved."""
        partitions = list(self.partitions)
        if epoch < 1 or len(partitions) < 2:
            return partitions
        start = epoch % len(partitions)
        return partitions[start:] + partitions[:start]


class FetchContext(NamedTuple):
    """What a ShareFetch has to do.

    `partitions` are to be read, in this order (none when FINAL); `dropped` is the session that a NEW one replaced.
    The session of a FINAL context is closed already. Its member's records are to be released, as those of `dropped`.
    """

    session: ShareSession
    kind: ContextKind
    partitions: list[TopicIdPartition]
    dropped: ShareSession | None = None


class AcknowledgeContext(NamedTuple):
    """What a ShareAcknowledge has to do: INCREMENTAL or FINAL, as in FetchContext."""

    session: ShareSession
    kind: ContextKind


class ShareSessionCache:
    """All sessions of one node, at most `limit` (`group.share.max.share.sessions`)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        #: Sessions that have ended with their connection, so far.
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions, each session's own."""
        return sum(len(session.partitions) for session in list(self._sessions.values()))

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """The member's session, if there is one."""
        return self._sessions.get(SessionKey(group_id, member_id))

    def fetch(
        self,
        group_id: str | None,
        member_id: str | None,
        epoch: int,
        connection_id: int,
        add: Iterable[TopicIdPartition] = (),
        forget: Iterable[TopicIdPartition] = (),
        has_acks: bool = False,
    ) -> FetchContext:
        """The context of a ShareFetch with these topics and forgotten topics; `has_acks`: it acknowledges something.

        Raises RequestError: INVALID_REQUEST (ids, acknowledgements with epoch 0, more than `MAX_PARTITIONS`),
        SHARE_SESSION_LIMIT_REACHED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; nothing has changed then.
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
        return FetchContext(session, kind, session.in_turn(epoch))

    def acknowledge(
        self, group_id: str | None, member_id: str | None, epoch: int, connection_id: int
    ) -> AcknowledgeContext:
        """The context of a ShareAcknowledge.

        Raises RequestError: INVALID_REQUEST (ids), INVALID_SHARE_SESSION_EPOCH (0 too: it cannot open a session),
        SHARE_SESSION_NOT_FOUND; nothing has changed then.
        """
        key = _checked_key(group_id, member_id)
        if epoch == INITIAL_EPOCH:
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge cannot open a share session")
        return AcknowledgeContext(*self._continue(key, epoch, connection_id))

    def evict_connection(self, connection_id: int) -> list[ShareSession]:
        """The connection is closed: its sessions end, and are returned for their members' records to be released."""
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
            raise RequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"there are {self._limit} share sessions already")
        dropped = self._remove(key)
        session = self._sessions[key] = ShareSession(key, connection_id)
        self._by_connection.setdefault(connection_id, set()).add(key)
        _update(session, add, forget)
        return FetchContext(session, ContextKind.NEW, session.in_turn(INITIAL_EPOCH), dropped)

    def _continue(self, key: SessionKey, epoch: int, connection_id: int) -> tuple[ShareSession, ContextKind]:
        session = self._sessions.get(key)
        if session is None:
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} has no share session here")
        if epoch == FINAL_EPOCH:
            self._remove(key)
            return session, ContextKind.FINAL
        if epoch != session.epoch:
            problem = f"the share session is at epoch {session.epoch}, the request at {epoch}"
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, problem)
        session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        self._move(session, connection_id)
        return session, ContextKind.INCREMENTAL

    def _move(self, session: ShareSession, connection_id: int) -> None:
        """A member that has connected anew keeps its session when the end of its old connection is seen late."""
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
    """A partition that is both added and forgotten was named only for its acknowledgements."""
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
