"""Requests for a group of another cell. Their sender maps groups to cells differently from this job."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.refused_requests import RefusedRequests
from sharegroup.core.operators.rows import RequestRow
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.response_rows import Response

#: `share_group_refusal` or `share_partition_refusal`.
Refusal = Callable[[Mapping[str, Any], int, str], Response]


class ForeignRequests(RefusedRequests):
    """The operator of such a key. It rejects every request with NOT_COORDINATOR and keeps no state.

    `cells` are the cell of this job and the cell of the group.
    """

    def __init__(self, key: str, group_id: str, cells: tuple[str, str], refusal: Refusal) -> None:
        super().__init__(key)
        self._refusal = refusal
        own, other = cells
        self._message = (
            f"group {group_id} belongs to cell {other}, but this job serves cell {own}; "
            "check that the sender and the job use the same map of groups to cells"
        )

    def _refuse(self, request: RequestRow, output: Output) -> None:
        output.reject(request, self._message)
        try:
            row = json.loads(request.value)
        except ValueError:
            return
        if isinstance(row, dict) and row.get("reply_to"):
            output.respond(self._refusal(row, ErrorCode.NOT_COORDINATOR, self._message))
