"""Responses to requests for share-partitions."""

from __future__ import annotations

from sharegroup.engine.demands import Demand
from sharegroup.errors import RequestError
from sharegroup.protocol.share_partition_requests import (
    AcknowledgeRequest,
    ConfigureRequest,
    FenceMemberRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.protocol.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    SharePartitionRefusal,
    SharePartitionResponse,
    UnacquireResponse,
)
from sharegroup.share_partition.acknowledgement import RenewalsOff
from sharegroup.types import SharePartitionKey

#: What a response begins with: whom it is for and what it is about.
Named = tuple[str, str, str, str, str, int, str]


def request_named(request: SharePartitionRequest) -> Named:
    """What a response to the request begins with."""
    share_partition = request.group_id, request.topic, request.topic_id, request.partition
    return request.id, request.reply_to, *share_partition, request.member_id


def demand_refusal(key: SharePartitionKey, demand: Demand, error: RequestError) -> FetchResponse:
    """A fetch that stood cannot be met any more."""
    return FetchResponse(demand.id, demand.reply_to, *key, demand.member_id, int(error.code), error.message)


def refusal(request: SharePartitionRequest, error: RequestError) -> SharePartitionResponse:
    """The request was not carried out."""
    named = (*request_named(request), int(error.code), error.message)
    match request:
        case FetchRequest():
            return FetchResponse(*named)
        case AcknowledgeRequest():
            return AcknowledgeResponse(*named, renewals_off=isinstance(error, RenewalsOff))
        case UnacquireRequest():
            return UnacquireResponse(*named)
        case ReleaseMemberRequest():
            return ReleaseMemberResponse(*named)
        case ConfigureRequest() | FenceMemberRequest():
            return SharePartitionRefusal(*named, type=request.type)
