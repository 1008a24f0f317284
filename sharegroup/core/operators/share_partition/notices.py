"""Notices that a shard sends to the coordinator of its group, and error responses to requests for share-partitions.

A notice is sent after the commit of the batch that makes its content durable.
"""

from dataclasses import replace

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.demands import Demand
from sharegroup.core.share_partition.acknowledgement import RenewalsDisabled
from sharegroup.errors import RequestError
from sharegroup.protocol.rows.broadcasts import TopicDeletedBroadcast
from sharegroup.protocol.rows.reservation_requests import ReserveRequest
from sharegroup.protocol.rows.response_rows import reject_share_partition_request
from sharegroup.protocol.rows.row_fields import row_values
from sharegroup.protocol.rows.share_group_requests import DeletedNotice, InitializedNotice, TopicDeletedNotice
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReserveResponse,
    SharePartitionResponse,
)
from sharegroup.types import SharePartitionKey


def send_initialized(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """Notify the coordinator that the share-partition's initial state with this state epoch is durable."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{InitializedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send_request(InitializedNotice(notice_id, key.group_id, initialized=named))


def send_deleted(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """Notify the coordinator that the deletion of the share-partition's state with this state epoch is durable."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{DeletedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send_request(DeletedNotice(notice_id, key.group_id, deleted=named))


def send_topic_deleted(output: Output, group_id: str, topic_id: str) -> None:
    """Notify the coordinator, the gateways and the members that the topic was deleted."""
    output.send_request(TopicDeletedNotice(f"{TopicDeletedNotice.type}-{topic_id}", group_id, topic_ids=(topic_id,)))
    output.broadcast(TopicDeletedBroadcast(group_id, topic_id))


#: The first fields of a response: request id, `reply_to`, group, topic, topic id, partition and member id.
ResponseHeader = tuple[str, str, str, str, str, int, str]


def response_header(request: SharePartitionRequest) -> ResponseHeader:
    """Return the first fields of the response, which are copied from the request."""
    share_partition = request.group_id, request.topic, request.topic_id, request.partition
    return request.id, request.reply_to, *share_partition, request.member_id


def demand_rejection(key: SharePartitionKey, demand: Demand, error: RequestError) -> FetchResponse:
    """Return the error response to a waiting fetch."""
    return FetchResponse(demand.id, demand.reply_to, *key, demand.member_id, int(error.code), error.message)


def rejection(request: SharePartitionRequest, error: RequestError) -> SharePartitionResponse:
    """Return the error response to a request."""
    response = reject_share_partition_request(row_values(request), error.code, error.message)
    if isinstance(response, AcknowledgeResponse) and isinstance(error, RenewalsDisabled):
        return replace(response, renewals_off=True)
    if isinstance(response, ReserveResponse) and isinstance(request, ReserveRequest):
        return replace(response, reservation_epoch=request.reservation_epoch)
    return response
