"""Requests for a group that another cell has: whoever sent them has another map of groups to cells than this job."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sharegroup.engine import rows
from sharegroup.engine.output import Output
from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_rows import Response

__all__ = ["ForeignRequests", "Refusal"]

#: `share_group_refusal` or `share_partition_refusal`.
Refusal = Callable[[Mapping[str, Any], int, str], Response]


class ForeignRequests:
    """The operator of such a key: refuses with NOT_COORDINATOR, keeps nothing. `cells` are this one and the group's."""

    def __init__(self, key: str, group_id: str, cells: tuple[str, str], refusal: Refusal) -> None:
        self._key, self._refusal = key, refusal
        own, other = cells
        self._message = (
            f"group {group_id} is of cell {other}, and this is the job of cell {own}: is there one map of both?"
        )

    def run(self, lines: Sequence[str], now_ms: int) -> Output:
        """Take in the rows of a micro-batch and return its effects."""
        output = Output(self._key, now_ms)
        for line in rows.in_order(lines):
            if line.request is None:
                continue
            output.read(line.request)
            output.reject(line.request, self._message)
            try:
                row = json.loads(line.request.value)
            except ValueError:
                continue
            if isinstance(row, dict) and row.get("reply_to"):
                output.respond(self._refusal(row, ErrorCode.NOT_COORDINATOR, self._message))
        return output

    def dump(self) -> None:
        """There is nothing to keep."""
