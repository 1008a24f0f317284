"""The operator's key, encoded and decoded."""

from __future__ import annotations

import pytest

from sharegroup.job.knowledge.shard_keys import ShardKey


@pytest.mark.parametrize("group_id", ["g", "a\tb", "", "grüße"])
def test_a_key_comes_back(group_id: str) -> None:
    key = ShardKey(group_id, "orders", 7)
    assert ShardKey.decode(key.encode()) == key
