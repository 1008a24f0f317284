"""Rows of `__share_partition_requests` that name no share-partition. They share one key."""

from __future__ import annotations

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.refused_requests import RefusedRequests
from sharegroup.core.operators.rows import RequestRow
from sharegroup.errors import InvalidRequestRow
from sharegroup.protocol.rows.response_rows import share_partition_refusal
from sharegroup.protocol.rows.share_partition_requests import AnswerableError, decode_share_partition_request


class UnkeyedRequests(RefusedRequests):
    """The operator of that key. It rejects every row and responds if the requester is known."""

    def _refuse(self, request: RequestRow, output: Output) -> None:
        try:
            decode_share_partition_request(request.value)
            output.reject(request, "the request names no share-partition")
        except AnswerableError as error:
            output.reject(request, str(error))
            output.respond(share_partition_refusal(error.row, error.code, error.message))
        except InvalidRequestRow as error:
            output.reject(request, str(error))
