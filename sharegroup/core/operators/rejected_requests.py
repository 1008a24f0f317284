"""Operators for request rows that this job cannot serve. They reject each row and, if possible, respond with an error.

- `ForeignRequests`: rows of a group that belongs to another cell, that is, to another job. The reason is that the
  sender and this job use different maps of groups to cells.
- `UnkeyedRequests`: rows of `__share_partition_requests` that name no share-partition. All these rows have the same
  grouping key.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.errors import ErrorCode, InvalidRequestRow
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.response_rows import Response, reject_share_partition_request
from sharegroup.protocol.rows.row_fields import InvalidFieldError
from sharegroup.protocol.rows.share_partition_requests import (
    decode_share_partition_request,
)

#: Converts (row, error code, message) to an error response: `reject_share_group_request` or
#: `reject_share_partition_request`.
Rejection = Callable[[Mapping[str, Any], int, str], Response]


class RejectedRequests(ABC):
    """Base class of operators that reject all rows of a key. They keep no state."""

    def __init__(self, key: str) -> None:
        self._key = key

    @abstractmethod
    def _refuse(self, request: rows.RequestRow, output: Output) -> None:
        """Reject a request, and respond if the requester is known."""

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Reject the request rows of a micro-batch, except probes, and return the effects."""
        output = Output(self._key, now_ms)
        for line in rows.sort_rows(lines):
            if line.request is not None:
                output.mark_read(line.request)
                if line.request.value != PROBE:
                    self._refuse(line.request, output)
        return output

    def dump(self) -> str | None:
        """Return None, because there is no state."""
        return None


class ForeignRequests(RejectedRequests):
    """The operator of a group that another cell (job) serves. It rejects every request with NOT_COORDINATOR.

    `cells` is (the cell of this job, the cell of the group). `refusal` is the function that returns the error response.
    """

    def __init__(self, key: str, group_id: str, cells: tuple[str, str], refusal: Rejection) -> None:
        super().__init__(key)
        self._refusal = refusal
        own, other = cells
        self._message = (
            f"group {group_id} belongs to cell {other}, but this job serves cell {own}; "
            "check that the sender and the job use the same map of groups to cells"
        )

    def _refuse(self, request: rows.RequestRow, output: Output) -> None:
        output.record_invalid(request, self._message)
        try:
            row = json.loads(request.value)
        except ValueError:
            return
        if isinstance(row, dict) and row.get("reply_to"):
            output.respond(self._refusal(row, ErrorCode.NOT_COORDINATOR, self._message))


class UnkeyedRequests(RejectedRequests):
    """The operator of rows that name no share-partition. It rejects each row and responds if the requester is known."""

    def _refuse(self, request: rows.RequestRow, output: Output) -> None:
        try:
            decode_share_partition_request(request.value)
            output.record_invalid(request, "the request names no share-partition")
        except InvalidFieldError as error:
            output.record_invalid(request, str(error))
            output.respond(reject_share_partition_request(error.row, error.code, error.message))
        except InvalidRequestRow as error:
            output.record_invalid(request, str(error))
