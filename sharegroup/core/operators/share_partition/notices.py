"""Notices of a shard to its group's coordinator, and the responses to requests for share-partitions.

Notices are sent after the batch that makes their content durable.
"""

from __future__ import annotations

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.demands import Demand
from sharegroup.core.share_partition.acknowledgement import RenewalsDisabled
from sharegroup.errors import RequestError
from sharegroup.protocol.rows.broadcasts import TopicDeletedBroadcast
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest, UnreserveRequest
from sharegroup.protocol.rows.share_group_requests import DeletedNotice, InitializedNotice, TopicDeletedNotice
from sharegroup.protocol.rows.share_partition_requests import (
    AcknowledgeRequest,
    ConfigureRequest,
    FenceMemberRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    ReserveResponse,
    SharePartitionRejection,
    SharePartitionResponse,
    UnacquireResponse,
)
from sharegroup.types import SharePartitionKey


def send_initialized(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """Notify the coordinator that the initial state of this epoch is durable."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{InitializedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send_request(InitializedNotice(notice_id, key.group_id, initialized=named))


def send_deleted(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """Notify the coordinator that the state of this epoch is deleted."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{DeletedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send_request(DeletedNotice(notice_id, key.group_id, deleted=named))


def send_topic_deleted(output: Output, group_id: str, topic_id: str) -> None:
    """Notify the coordinator, the gateways and the members that the topic was deleted."""
    output.send_request(TopicDeletedNotice(f"{TopicDeletedNotice.type}-{topic_id}", group_id, topic_ids=(topic_id,)))
    output.broadcast(TopicDeletedBroadcast(group_id, topic_id))


#: The first fields of a response: the request it answers, its receiver, its share-partition and its member.
ResponseHeader = tuple[str, str, str, str, str, int, str]


def response_header(request: SharePartitionRequest) -> ResponseHeader:
    """Return the first fields of the response to a request."""
    share_partition = request.group_id, request.topic, request.topic_id, request.partition
    return request.id, request.reply_to, *share_partition, request.member_id


def demand_rejection(key: SharePartitionKey, demand: Demand, error: RequestError) -> FetchResponse:
    """Return the error response to a waiting fetch."""
    return FetchResponse(demand.id, demand.reply_to, *key, demand.member_id, int(error.code), error.message)


def rejection(request: SharePartitionRequest, error: RequestError) -> SharePartitionResponse:
    """Return the error response to a request."""
    named = (*response_header(request), int(error.code), error.message)
    match request:
        case FetchRequest():
            return FetchResponse(*named)
        case AcknowledgeRequest():
            return AcknowledgeResponse(*named, renewals_off=isinstance(error, RenewalsDisabled))
        case UnacquireRequest():
            return UnacquireResponse(*named)
        case ReleaseMemberRequest():
            return ReleaseMemberResponse(*named)
        case ReserveRequest():
            return ReserveResponse(*named, reservation_epoch=request.reservation_epoch)
        case ConfigureRequest() | FenceMemberRequest() | AssignRequest() | UnreserveRequest():
            return SharePartitionRejection(*named, type=request.type)
