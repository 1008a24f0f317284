"""The membership in a share group (KIP-932): creates heartbeats when they are due, and processes their responses.

The client chooses its member id and never changes it. A heartbeat with epoch 0 joins the group, and one with epoch -1
leaves it. If the coordinator returns UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH, the member loses its assignment and
joins again. Its record locks are not affected, because they belong to the share sessions.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from sharegroup.client.errors import ShareGroupsUnsupportedError
from sharegroup.errors import ErrorCode, RequestError, error_code
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
#: The heartbeat interval that is used until the coordinator has returned an interval.
FIRST_INTERVAL_MS = 5_000

_FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_WRONG_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
#: Errors that only an administrator can resolve. The next poll raises the error, and heartbeats are still sent.
_PERSISTENT = (ErrorCode.TOPIC_AUTHORIZATION_FAILED,)

#: The assigned partitions: {topic id: partition indexes}.
Assignment = dict[UUID, tuple[int, ...]]


class Membership:
    """The state of one member of a group: subscription, member epoch, assignment and the time of the next heartbeat.

    Attributes:
        is_coordinator_stale: whether the coordinator must be looked up again. The caller resets it.
        generation: the number of changes of the assignment so far.
    """

    def __init__(self, group_id: str, member_id: str, rack: str, retry_ms: int, max_poll_interval_ms: int) -> None:
        self.group_id, self.member_id = group_id, member_id
        self._rack, self._retry_ms, self._max_poll_interval_ms = rack or None, retry_ms, max_poll_interval_ms
        self.topics: frozenset[str] = frozenset()
        self._sent_topics: frozenset[str] | None = None
        self._last_sent_topics: frozenset[str] | None = None
        self.epoch = JOIN_EPOCH
        self.assignment: Assignment = {}
        self.generation = 0
        self.is_coordinator_stale = True
        self.interval_ms = FIRST_INTERVAL_MS
        self._due_ms: int | None = None
        self._last_poll_ms = 0
        #: Whether a poll waits. It may wait for any time: `max_poll_interval_ms` is a limit between two polls.
        self.is_polling = False
        self._is_out = False
        self._problem: RequestError | None = None
        self._is_fatal = False

    # -- the application -----------------------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscription. The next heartbeat sends the new one."""
        self.topics = frozenset(topics)
        self._due_ms = 0

    def note_poll(self, now_ms: int) -> None:
        """Record that the application polls. If the member left because of missing polls, it joins again."""
        self._last_poll_ms = now_ms
        if self._is_out:
            self._is_out = False
            self._due_ms = now_ms

    def raise_problem(self) -> None:
        """Raise the error that the application must handle, if there is one.

        A fatal error is raised by every call, any other error only once.
        """
        problem = self._problem
        if problem is not None:
            if not self._is_fatal:
                self._problem = None
            raise problem

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """The time of the next heartbeat in ms; None if no heartbeat is to be sent."""
        is_member = self.topics and not self._is_fatal and not self._is_out
        return self._due_ms if is_member else None

    def heartbeat(self, now_ms: int) -> ShareGroupHeartbeatRequest | None:
        """Return the heartbeat to send now; None if no heartbeat is due.

        If the application has not polled for `max_poll_interval_ms`, the heartbeat leaves the group. The member joins
        again at the next poll.
        """
        due_ms = self.due_ms
        if due_ms is None or now_ms < due_ms:
            return None
        if not self.is_polling and now_ms - self._last_poll_ms > self._max_poll_interval_ms:
            self._is_out = True
            return self.leave()
        self._due_ms = now_ms + self.interval_ms
        topics = self._last_sent_topics = self.topics  # read once: another thread may subscribe
        is_full = self.epoch == JOIN_EPOCH or self._sent_topics != topics
        return self._request(sorted(topics) if is_full else None)

    def leave(self) -> ShareGroupHeartbeatRequest | None:
        """Return the heartbeat that leaves the group; None if the member has not joined.

        The assignment is cleared immediately. A later heartbeat would join the group again.
        """
        if self.epoch == JOIN_EPOCH:
            return None
        self.epoch = LEAVE_EPOCH
        request = self._request(None)
        self._start_again()
        return request

    def on_response(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        """Apply the response to a heartbeat: its member epoch, interval and assignment, or its error."""
        code = response.error_code
        if code:
            self._on_error(error_code(code), response.error_message or "", now_ms)
            return
        if response.member_epoch == LEAVE_EPOCH:
            return
        self.epoch = response.member_epoch
        self._sent_topics = self._last_sent_topics
        self.interval_ms = response.heartbeat_interval_ms or FIRST_INTERVAL_MS
        self._due_ms = now_ms + self.interval_ms if self._sent_topics == self.topics else now_ms
        if response.assignment is not None:
            self._assign({t.topic_id: tuple(t.partitions) for t in response.assignment.topic_partitions})

    def on_lost(self, now_ms: int) -> None:
        """Schedule a retry, because a heartbeat could not be sent or received no response.

        Also mark the coordinator as stale, because another broker may be the coordinator now.
        """
        self.is_coordinator_stale = True
        self._due_ms = now_ms + self._retry_ms

    def fail(self, problem: RequestError) -> None:
        """End the membership permanently. From now on, all polls raise `problem`."""
        self._problem, self._is_fatal = problem, True
        self._start_again()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _request(self, topics: list[str] | None) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=self._rack if self.epoch == JOIN_EPOCH else None,
            subscribed_topic_names=topics,
        )

    def _on_error(self, code: ErrorCode, message: str, now_ms: int) -> None:
        if code in _FENCED:
            self._start_again()
            self._due_ms = now_ms
        elif code in _WRONG_COORDINATOR:
            self.on_lost(now_ms)
        elif code.retriable:
            self._due_ms = now_ms + self._retry_ms
        elif code in _PERSISTENT:
            self._problem = RequestError(code, message)
            self._due_ms = now_ms + self.interval_ms
        elif code is ErrorCode.UNSUPPORTED_VERSION:
            self.fail(ShareGroupsUnsupportedError(message or "share groups are not enabled at the broker"))
        else:
            self.fail(RequestError(code, message))

    def _start_again(self) -> None:
        self.epoch, self._sent_topics = JOIN_EPOCH, None
        self._assign({})

    def _assign(self, assignment: Assignment) -> None:
        if assignment != self.assignment:
            self.assignment = assignment
            self.generation += 1
