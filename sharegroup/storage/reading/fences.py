"""Processes that have taken the place of others as members (KIP-345), by `share_group_members`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


class Fence(NamedTuple):
    """The process that is a member in the place of another one, and when it joined."""

    member_id: str
    incarnation_id: str
    joined_ms: int


def read_fences(members: DeltaTable, group_ids: Collection[str]) -> dict[str, list[Fence]]:
    """By group, those of its members whose process has taken the place of another one, and is there."""
    of_groups = pc.field("group_id").isin(pa.array(group_ids, pa.string()))
    is_there = pc.field("joined_ms").is_valid() & (pc.field("incarnation_id") != "")
    rows = members.to_pyarrow_table(columns=["group_id", *Fence._fields], filters=of_groups & is_there)
    found: dict[str, list[Fence]] = {}
    for row in rows.to_pylist():
        found.setdefault(row.pop("group_id"), []).append(Fence(**row))
    return {group_id: sorted(fences) for group_id, fences in found.items()}
