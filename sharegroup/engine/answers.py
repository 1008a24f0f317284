"""Responses to requests for share-partitions, put into an `Output`; nobody is told who gave no `reply_to`."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.engine import rows
from sharegroup.engine.demands import Demand
from sharegroup.engine.output import Output
from sharegroup.engine.rows import RequestRow
from sharegroup.errors import InvalidRequestRow, RequestError
from sharegroup.protocol.request_rows import (
    FETCH,
    AnswerableError,
    SharePartitionRequest,
    decode_share_partition_request,
)
from sharegroup.protocol.response_rows import WANTED, SharePartitionResponse, encode_response
from sharegroup.protocol.row_fields import MAX_INT32, is_integer, said_back
from sharegroup.share_partition.acknowledgement import RenewalsOff
from sharegroup.types import AcquiredRange, SharePartitionKey


def answer_demand(
    output: Output,
    key: SharePartitionKey,
    demand: Demand,
    read_committed: bool,
    acquired: tuple[AcquiredRange, ...] = (),
    lock_deadline_ms: int = -1,
) -> None:
    """What a fetch acquired, or nothing; `read_committed`: the group reads committed records only."""
    response = SharePartitionResponse(FETCH, demand.id, demand.reply_to, *key, demand.member_id)
    response = response._replace(read_committed=read_committed)
    _respond(output, response._replace(acquired=acquired, lock_deadline_ms=lock_deadline_ms))


def refuse_demand(output: Output, key: SharePartitionKey, demand: Demand, error: RequestError) -> None:
    """A fetch that stood cannot be met any more."""
    response = SharePartitionResponse(FETCH, demand.id, demand.reply_to, *key, demand.member_id)
    _respond(output, response._replace(error_code=int(error.code), error_message=error.message))


def tell_wanted(output: Output, key: SharePartitionKey, requester: str) -> None:
    """Records that the requester's members have not looked at are wanted elsewhere."""
    _respond(output, SharePartitionResponse(WANTED, "", requester, *key, ""))


def answer(
    output: Output,
    request: SharePartitionRequest,
    renewed: tuple[AcquiredRange, ...] = (),
    lock_deadline_ms: int = -1,
) -> None:
    """The request was carried out, and has renewed these locks."""
    _respond(output, _response_to(request)._replace(acquired=renewed, lock_deadline_ms=lock_deadline_ms))


def refuse(output: Output, row: RequestRow, request: SharePartitionRequest, error: RequestError) -> None:
    """The request was not carried out; the row is rejected when there is nobody to tell."""
    if not request.reply_to:
        output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
    refusal = _response_to(request)._replace(error_code=int(error.code), error_message=error.message)
    _respond(output, refusal._replace(renewals_off=isinstance(error, RenewalsOff)))


def refuse_undecoded(output: Output, row: RequestRow, error: AnswerableError) -> None:
    """A response with what is known of the request, and a rejection with its coordinates beside it."""
    output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
    known = error.row
    partition = known.get("partition")
    response = SharePartitionResponse(
        said_back(known, "type"),
        known["id"],
        known["reply_to"],
        said_back(known, "group_id"),
        said_back(known, "topic"),
        said_back(known, "topic_id"),
        partition if is_integer(partition, -MAX_INT32, MAX_INT32) else -1,
        said_back(known, "member_id"),
        int(error.code),
        error.message,
    )
    _respond(output, response)


def reject_unkeyed(key: str, lines: Sequence[str], now_ms: int) -> Output:
    """Rows that name no share-partition at all: answered where the requester is known, rejected in any case."""
    output = Output(key, now_ms)
    for line in rows.in_order(lines):
        row = line.request
        if row is None:
            continue
        output.read_up_to(row.kafka_partition, row.kafka_offset + 1)
        try:
            decode_share_partition_request(row.value)
            output.rejected.append((row.kafka_partition, row.kafka_offset, "names no share-partition"))
        except AnswerableError as error:
            refuse_undecoded(output, row, error)
        except InvalidRequestRow as error:
            output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
    return output


def _response_to(request: SharePartitionRequest) -> SharePartitionResponse:
    return SharePartitionResponse(
        type=request.type,
        id=request.id,
        reply_to=request.reply_to,
        group_id=request.group_id,
        topic=request.topic,
        topic_id=request.topic_id,
        partition=request.partition,
        member_id=request.member_id,
    )


def _respond(output: Output, response: SharePartitionResponse) -> None:
    if response.reply_to:
        output.responses.append(encode_response(response))
