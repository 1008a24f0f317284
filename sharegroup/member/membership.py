"""A member's heartbeats (KIP-932, ShareGroupHeartbeat). No I/O: the caller sends them and passes their responses.

    joining (epoch 0) --response--> member (epoch n, assignment) --UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH--> joining
                                                                 --leave (epoch -1, -2)--> left
                                                                 --FENCED_INSTANCE_ID--> fatal

Heartbeats are sent at the interval that the coordinator returns, or at a shorter interval while nothing is assigned. If
no response arrives in time, the heartbeat is sent again. The response to an earlier heartbeat is accepted too.
Otherwise no response of a slow coordinator would ever be accepted.
"""

import logging
from collections.abc import Iterator, Mapping

from sharegroup.errors import ErrorCode, RequestError, error_code
from sharegroup.log_fields import LogFields
from sharegroup.member.ranges import AssignedPartition
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse

logger = logging.getLogger(__name__)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
#: The member epoch in the heartbeat of a static member that leaves temporarily (KIP-848).
LEAVE_FOR_RESTART_EPOCH = -2
#: A heartbeat without a response is sent again after this time, in ms.
RESPONSE_TIMEOUT_MS = 5_000
UNASSIGNED_INTERVAL_MS = 1_000
RETRY_MS = 1_000

#: Errors after which the coordinator may accept a later heartbeat. After an error in `_FENCED`, the member joins again.
#: After any other error, the membership has ended.
_TEMPORARY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})


class Membership:
    """The membership in a group: creates the heartbeats that join the group, stay in it, and leave it.

    Args:
        ids: yields new request ids.
        incarnation: identifies this process of the member.
        group_instance_id: the name of a static member (KIP-345); None for other members.

    Attributes:
        fatal: the error with which the coordinator has rejected the member permanently, if any. For example, another
            process has joined as the same member.
        left: whether the member has left the group.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: tuple[str, ...],
        client_id: str,
        client_host: str,
        ids: Iterator[str],
        incarnation: str,
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = JOIN_EPOCH
        self.assignment: frozenset[AssignedPartition] = frozenset()
        self.fatal: RequestError | None = None
        self.left = False
        self._topics, self._client_id, self._client_host = topics, client_id, client_host
        self._ids, self._incarnation, self._group_instance_id = ids, incarnation, group_instance_id
        self._is_subscription_known = True  # sent with the join
        self._due_ms = 0
        self._unanswered: dict[str, int] = {}
        self._leaving = False

    @property
    def has_joined(self) -> bool:
        """Whether the coordinator has accepted the join and has not removed the member since."""
        return self.member_epoch > JOIN_EPOCH

    def heartbeat(self, metadata: Mapping[str, TopicMetadata], now_ms: int) -> HeartbeatRequest | None:
        """Return the heartbeat to send now; None if no heartbeat is due.

        None is due after `leave` or a fatal error. `metadata` describes the subscribed topics that exist.
        """
        if now_ms < self._due_ms or self._leaving or self.fatal:
            return None
        self._due_ms = now_ms + RESPONSE_TIMEOUT_MS
        return self._request(self.member_epoch, metadata)

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Change the subscribed topics. Heartbeats contain them until a response confirms them."""
        if topics != self._topics:
            self._topics, self._is_subscription_known = topics, False
            self.schedule_now(now_ms)

    def schedule_now(self, now_ms: int) -> None:
        """Make the next heartbeat due now, because there is a change to report."""
        self._due_ms = min(self._due_ms, now_ms)

    def leave(self, permanently: bool = True) -> HeartbeatRequest | None:
        """Return the heartbeat that leaves the group; None if the member is not in the group and no join is pending.

        The response to the heartbeat sets `left`; without a heartbeat, `left` is set immediately. A static member that
        does not leave permanently stays in the group for its next process.
        """
        self._leaving = True
        if not self.has_joined and not self._unanswered:
            self.left = True
            return None
        stays = self._group_instance_id is not None and not permanently
        return self._request(LEAVE_FOR_RESTART_EPOCH if stays else LEAVE_EPOCH, {})

    def handle_response(self, response: HeartbeatResponse, now_ms: int) -> bool:
        """Apply a response. Return whether the member was fenced, so that it no longer holds any records."""
        epoch = self._unanswered.pop(response.id, None)
        if epoch is None:
            return False
        if epoch <= LEAVE_EPOCH:
            self.left = True
            return False
        if response.error_code != ErrorCode.NONE:
            return self._handle_error(response, epoch, now_ms)
        self.member_epoch = response.member_epoch
        if response.subscribed_topic_names is not None:
            self._is_subscription_known = response.subscribed_topic_names == tuple(sorted(self._topics))
        if response.assignment is not None:
            self.assignment = frozenset(
                AssignedPartition(topic, topic_id, partition)
                for topic, (topic_id, partitions) in response.assignment.items()
                for partition in partitions
            )
        interval_ms = response.heartbeat_interval_ms
        if not self.assignment:
            interval_ms = min(interval_ms, UNASSIGNED_INTERVAL_MS)
        self._due_ms = now_ms + interval_ms
        return False

    def _handle_error(self, response: HeartbeatResponse, epoch: int, now_ms: int) -> bool:
        code = response.error_code
        if code in _FENCED:
            if epoch != self.member_epoch or epoch == JOIN_EPOCH:
                self._due_ms = now_ms + RETRY_MS  # the error refers to an earlier epoch
                return False
            logger.warning(
                "member %(member)s was removed from group %(group)s and joins it again: %(error)s",
                LogFields(member=self.member_id, group=self.group_id, error=response.error_message),
            )
            self.member_epoch, self.assignment, self._due_ms = JOIN_EPOCH, frozenset(), now_ms
            return True
        if code in _TEMPORARY:
            logger.warning(
                "member %(member)s of group %(group)s: a heartbeat failed and is retried: error %(detail)s: %(error)s",
                LogFields(member=self.member_id, group=self.group_id, detail=code, error=response.error_message),
            )
            self._due_ms = now_ms + RETRY_MS
            return False
        self.fatal = RequestError(error_code(code), response.error_message or f"the heartbeat failed with error {code}")
        return False

    def _request(self, member_epoch: int, metadata: Mapping[str, TopicMetadata]) -> HeartbeatRequest:
        is_change = member_epoch > JOIN_EPOCH and not self._is_subscription_known
        request = HeartbeatRequest(
            next(self._ids),
            self.group_id,
            reply_to=self.member_id,
            member_id=self.member_id,
            member_epoch=member_epoch,
            client_id=self._client_id,
            client_host=self._client_host,
            subscribed_topic_names=self._topics if member_epoch == JOIN_EPOCH or is_change else None,
            topics=metadata,
            group_instance_id=self._group_instance_id,
            incarnation_id=self._incarnation,
        )
        self._unanswered[request.id] = member_epoch
        while len(self._unanswered) > 100:
            del self._unanswered[next(iter(self._unanswered))]
        return request
