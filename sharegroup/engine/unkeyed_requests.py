"""Rows of `__share_partition_requests` that name no share-partition at all: they have a key of their own."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.engine import rows
from sharegroup.engine.output import Output
from sharegroup.errors import InvalidRequestRow
from sharegroup.protocol.response_rows import share_partition_refusal
from sharegroup.protocol.share_partition_requests import AnswerableError, decode_share_partition_request

__all__ = ["UnkeyedRequests"]


class UnkeyedRequests:
    """The operator of that key: answers where the requester is known, rejects in any case, keeps nothing."""

    def __init__(self, key: str) -> None:
        self._key = key

    def run(self, lines: Sequence[str], now_ms: int) -> Output:
        """Take in the rows of a micro-batch and return its effects."""
        output = Output(self._key, now_ms)
        for line in rows.in_order(lines):
            if line.request is None:
                continue
            output.read(line.request)
            try:
                decode_share_partition_request(line.request.value)
                output.reject(line.request, "names no share-partition")
            except AnswerableError as error:
                output.reject(line.request, str(error))
                output.respond(share_partition_refusal(error.row, error.code, error.message))
            except InvalidRequestRow as error:
                output.reject(line.request, str(error))
        return output

    def dump(self) -> None:
        """There is nothing to keep."""
