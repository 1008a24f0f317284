"""Reads from `share_group_members` which processes have replaced earlier processes of the same members (KIP-345)."""

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


class Fence(NamedTuple):
    """A process that has replaced an earlier process of the same member. Requests of the earlier process are rejected.

    `incarnation_id` identifies the current process. `joined_ms` is when it joined, by the brokers' clocks.
    """

    member_id: str
    incarnation_id: str
    joined_ms: int


def read_fences(members: DeltaTable, group_ids: Collection[str]) -> dict[str, list[Fence]]:
    """Return {group id: fences}, with one fence for each member whose process was replaced and that has not left."""
    of_groups = pc.field("group_id").isin(pa.array(group_ids, pa.string()))
    is_there = pc.field("joined_ms").is_valid() & (pc.field("incarnation_id") != "")
    rows = members.to_pyarrow_table(columns=["group_id", *Fence._fields], filters=of_groups & is_there)
    found: dict[str, list[Fence]] = {}
    for row in rows.to_pylist():
        found.setdefault(row.pop("group_id"), []).append(Fence(**row))
    return {group_id: sorted(fences) for group_id, fences in found.items()}
