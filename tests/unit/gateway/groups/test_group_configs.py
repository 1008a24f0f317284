"""The configs in force for a group, as read from the table in the background."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.config import IsolationLevel, parse_config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups import group_configs
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.stored_groups import StoredGroups
from tests.unit.gateway.scripted_upstream import FixedTables

LOCK = "share.record.lock.duration.ms"
CONFIG = parse_config({"groups": {"g": {LOCK: 25_000}}}, "test")


def refresh(configs: GroupConfigs) -> None:
    asyncio.run(configs.refresh())


def test_dynamic_config_overrides_the_file() -> None:
    tables = FixedTables(configs={"g": {LOCK: "40000"}, "h": {"share.isolation.level": "read_committed"}})
    configs = GroupConfigs(CONFIG, tables)
    assert configs.group_config("g").record_lock_duration_ms == 25_000
    refresh(configs)
    assert configs.group_config("g").record_lock_duration_ms == 40_000
    assert configs.group_config("h").isolation_level is IsolationLevel.READ_COMMITTED
    tables.set_configs = {}
    refresh(configs)
    assert configs.group_config("g").record_lock_duration_ms == 25_000


def test_effective_config_of_a_group_is_cached() -> None:
    configs = GroupConfigs(CONFIG, FixedTables())
    found = configs.group_config("g")
    refresh(configs)
    assert configs.group_config("g") is found


def test_config_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_configs, "MAX_KEPT", 2)
    configs = GroupConfigs(CONFIG, FixedTables())
    first = configs.group_config("g")
    for number in range(3):
        configs.group_config(f"other-{number}")
    assert configs.group_config("g") is not first
    assert configs.group_config("g") == first


def test_value_outside_the_jobs_bounds_is_clamped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    configs = GroupConfigs(CONFIG, FixedTables(configs={"g": {LOCK: "1000000"}}))
    refresh(configs)
    assert configs.group_config("g").record_lock_duration_ms == 60_000
    assert [record.getMessage().startswith(f"group g: {LOCK}") for record in caplog.records] == [True]


def test_unreadable_tables_change_nothing() -> None:
    tables = FixedTables(configs={"g": {LOCK: "40000"}})
    configs = GroupConfigs(CONFIG, tables)
    refresh(configs)
    tables._error = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")
    asyncio.run(configs.upkeep())
    assert configs.group_config("g").record_lock_duration_ms == 40_000
    with pytest.raises(RequestError):
        refresh(configs)


def test_there_are_no_configs_before_a_job_has_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stored = StoredGroups({"": str(tmp_path / "tables")}, lambda _: "")

    async def read() -> list[object]:
        return [
            await stored.listings(),
            await stored.configs(),
            await stored.offsets(["g"]),
            await stored.describe(["g"]),
        ]

    assert asyncio.run(read()) == [(), {}, {}, {}]
    assert [record.getMessage() for record in caplog.records] == [
        f"there are no tables in {tmp_path / 'tables'}: no job has run yet, or tables.path is wrong"
    ]


def test_broken_table_does_not_count_as_empty(tmp_path: Path) -> None:
    log = tmp_path / "share_groups" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("not JSON")
    with pytest.raises(RequestError) as refused:
        asyncio.run(StoredGroups({"": str(tmp_path)}, lambda _: "").listings())
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
