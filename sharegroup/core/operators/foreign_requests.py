"""Requests for a group that another cell has: whoever sent them has another map of groups to cells than this job."""

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
    """The operator of such a key: refuses with NOT_COORDINATOR, keeps nothing. `cells` are this one and the group's."""

    def __init__(self, key: str, group_id: str, cells: tuple[str, str], refusal: Refusal) -> None:
        super().__init__(key)
        self._refusal = refusal
        own, other = cells
        self._message = (
            f"group {group_id} is of cell {other}, and this is the job of cell {own}: is there one map of both?"
        )

    def _refuse(self, request: RequestRow, output: Output) -> None:
        output.reject(request, self._message)
        try:
            row = json.loads(request.value)
        except ValueError:
            return
        if isinstance(row, dict) and row.get("reply_to"):
            output.respond(self._refusal(row, ErrorCode.NOT_COORDINATOR, self._message))
