"""A member's share session with one partition leader (KIP-932), and the acknowledgements that are queued for it.

Only one request is in progress at a time, because the epoch of a session counts its requests. Acknowledgements are sent
with the next fetch or in a separate request. They are valid only in the session in which the records were acquired. If
the session ends, the server releases the locks, and queued acknowledgements fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.client.core.acknowledgements import Acknowledgements, AcknowledgeResult, Types, topics_of
from sharegroup.client.records import TopicIdPartition
from sharegroup.errors import ErrorCode, RequestError, error_code
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sharegroup.types import AcknowledgeType

_Errors = dict[TopicIdPartition, tuple[int, str | None]]
NEW_EPOCH, FINAL_EPOCH, MAX_EPOCH = 0, -1, 2**31 - 1
#: Errors that end the session, so that a new one must be opened. The server releases the locks of the old session.
SESSION_ENDED = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
)


class FetchLimits(NamedTuple):
    """The limits of a ShareFetch.

    If `is_record_limit`, the response never has more than `max_records` records. Otherwise it may have more, so that
    record batches stay whole (KIP-1206).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    is_record_limit: bool


class FetchedPartition(NamedTuple):
    """A partition of a ShareFetch response. `code` and `message` are its fetch error, and `part` is its whole entry."""

    source: TopicIdPartition
    code: ErrorCode
    message: str
    part: Any


class FetchAnswer(NamedTuple):
    """A ShareFetch response without the results of acknowledgements.

    `problem` is the error of the whole request; None if there is no such error.
    """

    problem: RequestError | None
    partitions: list[FetchedPartition]
    lock_timeout_ms: int

    @property
    def records(self) -> int:
        """The number of acquired offsets. Some of them may turn out to be gaps without a record."""
        return sum(r.last_offset + 1 - r.first_offset for one in self.partitions for r in one.part.acquired_records)

    @property
    def size(self) -> int:
        """The total size of all record batches in bytes."""
        return sum(len(one.part.records or b"") for one in self.partitions)


class ShareNode:
    """One broker (node), the member's share session with it, and the acknowledgements that are queued for it.

    Attributes:
        epoch: the session epoch of the next request; 0 opens a session.
        partitions: the partitions of the session. The server has the same partitions in its session.
        results: results of acknowledgements, until the caller removes them.
        session: a counter that identifies the current session. It increases when a session ends.
        has_backlog: whether the last fetch response indicates that the server has more records.
        has_retries: whether the last response had retriable errors, so that acknowledgements were queued again.
    """

    def __init__(self, node_id: int, group_id: str, member_id: str) -> None:
        self.node_id, self._group_id, self._member_id = node_id, group_id, member_id
        self.epoch, self.session = NEW_EPOCH, 0
        self.has_backlog = self.has_retries = False
        self.partitions: dict[TopicIdPartition, None] = {}
        self.results: list[AcknowledgeResult] = []
        self._pending: dict[TopicIdPartition, Acknowledgements] = {}
        self._sent: dict[TopicIdPartition, Acknowledgements] = {}
        self._wanted: tuple[TopicIdPartition, ...] = ()
        self._limits: FetchLimits | None = None
        self._is_final = False

    @property
    def has_pending(self) -> bool:
        """Whether any acknowledgements have not been sent yet."""
        return bool(self._pending)

    @property
    def has_renewals(self) -> bool:
        """Whether any renewals have not been sent yet."""
        return any(pending.has_renewals for pending in self._pending.values())

    @property
    def is_waiting(self) -> bool:
        """Whether any acknowledgements, queued or sent, have no result yet."""
        return bool(self._pending or self._sent)

    @property
    def waiting_sources(self) -> list[TopicIdPartition]:
        """The partitions that have acknowledgements without a result."""
        return [*self._pending, *self._sent]

    def add(self, source: TopicIdPartition, types: Types, deadline_ms: int, is_unused: bool = False) -> None:
        """Queue acknowledgements of a partition. For an offset that is already queued, the new type applies.

        `is_unused` means that the application has not used these records (see `Acknowledgements`).
        """
        new = Acknowledgements(source, types, deadline_ms, types.keys() if is_unused else ())
        pending = self._pending.get(source)
        self._pending[source] = pending.followed_by(new) if pending else new

    # -- requests ------------------------------------------------------------------------------------------------------

    def fetch(self, wanted: Collection[TopicIdPartition], limits: FetchLimits) -> ShareFetchRequest:
        """Return a fetch request for these partitions, which also contains the queued acknowledgements.

        The request opens the session, or continues it and changes its partitions to `wanted`. The server adds every
        partition in the request to the session. Partitions that the request contains only for acknowledgements are
        therefore also in the request's list of forgotten partitions.
        """
        sent = self._take(has_fetch=True)
        new = [source for source in wanted if source not in self.partitions]
        gone = [source for source in [*self.partitions, *sent] if source not in wanted]
        self._wanted, self._limits = tuple(wanted), limits
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=1 if limits.is_record_limit else 0,
            is_renew_ack=False,
            topics=topics_of(ShareFetchRequest.FetchTopic, ShareFetchRequest.FetchTopic.FetchPartition, new, sent),
            forgotten_topics_data=_forgotten(gone),
        )

    def acknowledge(self, is_final: bool = False) -> ShareAcknowledgeRequest | None:
        """Return a request with the queued acknowledgements; None if there is no session or nothing to send.

        Without a session, the queued acknowledgements fail. With `is_final`, the request also ends the session, and the
        server releases the other locks of the session.
        """
        sent = self._take(has_fetch=False, is_final=is_final)
        if self.epoch == NEW_EPOCH or not (sent or is_final):
            return None
        self._is_final = is_final
        classes = ShareAcknowledgeRequest.AcknowledgeTopic
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if is_final else self.epoch,
            is_renew_ack=any(one.has_renewals for one in sent.values()),
            topics=topics_of(classes, classes.AcknowledgePartition, (), sent),
        )

    # -- responses -----------------------------------------------------------------------------------------------------

    def on_fetch(self, response: ShareFetchResponse, now_ms: int) -> FetchAnswer:
        """Apply the response to a fetch request, and return its part about records.

        The results of acknowledgements are appended to `results`.
        """
        problem = self._on_code(response)
        self.has_backlog = False
        if problem is not None:
            return FetchAnswer(problem, [], 0)
        known = {(source.topic_id, source.partition): source for source in [*self._wanted, *self._sent]}
        self.partitions = dict.fromkeys(self._wanted)
        partitions: list[FetchedPartition] = []
        errors: _Errors = {}
        for topic_id, part in _parts(response):
            source = known.get((topic_id, part.partition_index))
            if source is None:  # a partition that was forgotten
                continue
            errors[source] = (part.acknowledge_error_code, part.acknowledge_error_message)
            partitions.append(FetchedPartition(source, error_code(part.error_code), part.error_message or "", part))
        self._finish(errors, now_ms, 0)
        answer = FetchAnswer(None, partitions, response.acquisition_lock_timeout_ms)
        self.has_backlog = self._shows_backlog(answer)
        return answer

    def on_acknowledge(self, response: ShareAcknowledgeResponse, now_ms: int) -> RequestError | None:
        """Apply the response to an acknowledge request. Return the error of the whole request, or None."""
        problem = self._on_code(response)
        if problem is None:
            known = {(source.topic_id, source.partition): source for source in self._sent}
            errors = {
                known[topic_id, part.partition_index]: (part.error_code, part.error_message)
                for topic_id, part in _parts(response)
                if (topic_id, part.partition_index) in known
            }
            self._finish(errors, now_ms, response.acquisition_lock_timeout_ms)
        if self._is_final:
            self._reset()
        return problem

    def on_lost(self, reason: str) -> None:
        """End the session, because the connection was lost or a request received no response.

        Acknowledgements that were sent without receiving a response fail.
        """
        self._fail(
            RequestError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{reason}; it is unknown whether the acknowledgement was applied"
            )
        )
        self._reset()

    def drop_pending(self, reason: str) -> None:
        """Fail all acknowledgements without a result, because they can no longer be sent."""
        self._sent = {**self._sent, **self._pending}
        self._pending = {}
        self._fail(RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _shows_backlog(self, answer: FetchAnswer) -> bool:
        """Return whether a response indicates that the server has more records.

        This is so if the response contains records and at least one of these conditions is true:
        - It contains at least half of `max_records` records.
        - Its size is at least half of one partition's share of `max_bytes`. A server divides `max_bytes` among the
          partitions, and perhaps only one of them has records.
        - The fetch did not wait for records (`max_wait_ms` 0).
        """
        assert self._limits is not None
        is_half_full = 2 * answer.records >= self._limits.max_records
        has_half_of_bytes = 2 * answer.size * len(self._wanted) >= self._limits.max_bytes
        return answer.records > 0 and (is_half_full or has_half_of_bytes or self._limits.max_wait_ms == 0)

    def _take(self, has_fetch: bool, is_final: bool = False) -> dict[TopicIdPartition, Acknowledgements]:
        """Return the acknowledgements to send in the next request, and mark them as sent.

        Renewals of a partition are sent after its other acknowledgements, because the server applies all or none of a
        request's acknowledgements of a partition, and a renewal may be refused. Only a final request contains both.
        Without a session, all acknowledgements fail instead. A fetch does not contain the acknowledgements of a
        partition with renewals, because a fetch with renewals must not request records.
        """
        if self.epoch == NEW_EPOCH:
            self.drop_pending("the share session ended, which released the locks of the records")
            return {}
        waiting: dict[TopicIdPartition, Acknowledgements] = {}
        self._sent = {}
        for source, one in self._pending.items():
            if not one.has_renewals or is_final:
                self._sent[source] = one
                continue
            if has_fetch:
                waiting[source] = one
                continue
            others: Types = {offset: kind for offset, kind in one.types.items() if kind is not AcknowledgeType.RENEW}
            if others:
                self._sent[source] = one._replace(types=others)
                renewals: Types = {offset: kind for offset, kind in one.types.items() if kind is AcknowledgeType.RENEW}
                waiting[source] = one._replace(types=renewals, unused=())
            else:
                self._sent[source] = one
        self._pending = waiting
        return self._sent

    def _on_code(self, response: Any) -> RequestError | None:
        """Update the session epoch, and return the error of the whole request, or None.

        After an error, the acknowledgements that the request contained fail.
        """
        self.has_retries = False
        if not response.error_code:
            self._advance()
            return None
        problem = RequestError(error_code(response.error_code), response.error_message or "")
        self._fail(problem)
        if problem.code in SESSION_ENDED:
            self._reset()
        elif self.epoch != NEW_EPOCH:
            self._advance()
        return problem

    def _advance(self) -> None:
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def _finish(self, errors: _Errors, now_ms: int, lock_timeout_ms: int) -> None:
        """Create the results of the sent acknowledgements. Queue those again that may be retried (`may_retry`)."""
        sent, self._sent = self._sent, {}
        for source, acknowledged in sent.items():
            number, message = errors.get(
                source, (ErrorCode.INVALID_RECORD_STATE, "the response does not contain the partition")
            )
            code = error_code(number)
            if acknowledged.may_retry(code, now_ms):
                newer = self._pending.get(source)
                again = acknowledged.followed_by(newer) if newer else acknowledged
                self._pending[source] = again._replace(deadline_ms=acknowledged.deadline_ms)
                self.has_retries = True
                continue
            error = RequestError(code, message or "") if number else None
            self.results.append(AcknowledgeResult(source, acknowledged.types, error, lock_timeout_ms))

    def _fail(self, error: RequestError) -> None:
        sent, self._sent = self._sent, {}
        self.results += [AcknowledgeResult(one.source, one.types, error) for one in sent.values()]

    def _reset(self) -> None:
        self.epoch, self.partitions, self._is_final = NEW_EPOCH, {}, False
        self.session += 1
        self.has_backlog = False


def _parts(response: ShareFetchResponse | ShareAcknowledgeResponse) -> Iterator[tuple[UUID, Any]]:
    for topic in response.responses:
        for part in topic.partitions:
            yield topic.topic_id, part


def _forgotten(sources: Iterable[TopicIdPartition]) -> list[Any]:
    by_topic: dict[UUID, list[int]] = {}
    for source in dict.fromkeys(sources):
        by_topic.setdefault(source.topic_id, []).append(source.partition)
    topic = ShareFetchRequest.ForgottenTopic
    return [topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()]
