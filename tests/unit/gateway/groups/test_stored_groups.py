"""Groups as stored in the tables, after leaves that the job has not processed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.groups.stored_groups import StoredGroups


async def test_descriptions_and_listings_wait_for_open_leaves(tmp_path: Path) -> None:
    """After a consumer is closed, the group is described without it."""
    leaves = OpenLeaves()
    groups = StoredGroups({"": str(tmp_path)}, lambda _: "", leaves=leaves)
    left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    leaves.add("g", left)
    assert await groups.describe(["another"]) == {}
    described = asyncio.ensure_future(groups.describe(iter(["g"])))
    listed = asyncio.ensure_future(groups.listings())
    assert await groups.offsets(["g"]) == {}
    assert not described.done()
    assert not listed.done()
    left.set_result(None)
    assert (await described, await listed) == ({}, ())
