"""The table of the groups' configs: the rows of the file at each start, and the source that polls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.config import Config, GroupConfig, parse_config
from sharegroup.core.operators.share_group.group_rows import altered_row
from sharegroup.job.cells.static_configs import write_static_configs
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.knowledge.known_configs import KnownConfigs
from sharegroup.storage import read_group_configs
from sharegroup.storage.following.config_poll import POLL_MS, ConfigPoll, file_values
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES
from sharegroup.types import LAST_ALTERED_MS, ConfigSource
from tests.tables.job_tables import T0, start

STATIC = ConfigSource.STATIC_BROKER_CONFIG
LOCK = "share.record.lock.duration.ms"
FILE = parse_config(
    {
        "group": {"group.share.min.record.lock.duration.ms": 2_000},
        "groups": {
            "a": {"share.isolation.level": "read_committed", "share.renew.acknowledge.enable": False},
            "b": {LOCK: 20_000},
        },
    },
    "test",
)


def started(root: Path, config: Config) -> CommitSteps:
    steps, _ = start(root, specs=GROUP_COORDINATOR_TABLES)
    write_static_configs(steps, config, T0)
    return steps


def set_lock(steps: CommitSteps, batch_id: int, group_id: str, value: str | None) -> None:
    row = {
        "group_id": group_id,
        "config_name": LOCK,
        "config_value": value,
        "config_source": "DYNAMIC_GROUP_CONFIG",
        "_deleted": value is None,
    }
    steps.commit(Batch(batch_id, T0, {"share_group_configs": [row]}, positions={0: batch_id}))


def test_each_start_puts_the_files_values_in_place_of_the_last_ones(tmp_path: Path) -> None:
    steps = started(tmp_path, FILE)
    of_a = {"share.isolation.level": "read_committed", "share.renew.acknowledge.enable": "false"}
    assert read_group_configs(str(tmp_path), STATIC) == {"a": of_a, "b": {LOCK: "20000"}}
    set_lock(steps, 0, "b", "40000")
    other = parse_config({"groups": {"b": {LOCK: 30_000}, "c": {LOCK: 15_000}}}, "test")
    steps = started(tmp_path, other)
    assert read_group_configs(str(tmp_path), STATIC) == {"b": {LOCK: "30000"}, "c": {LOCK: "15000"}}
    assert read_group_configs(str(tmp_path)) == {"b": {LOCK: "40000"}}
    version = steps.writers[-1].version
    write_static_configs(steps, other, T0 + 1)
    assert steps.writers[-1].version == version


def test_the_poll_follows_configs_that_requests_set_and_delete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = started(tmp_path, FILE)
    poll = ConfigPoll(file_values(FILE), str(tmp_path), {})
    now_ms = T0

    def locks() -> dict[str, object]:
        nonlocal now_ms
        now_ms += POLL_MS
        return {group_id: config["record_lock_duration_ms"] for group_id, config in poll.in_force(now_ms).items()}

    assert locks() == {"": 30_000, "a": 30_000, "b": 20_000}
    for group_id in ("", "a", "b"):
        assert poll.in_force(now_ms)[group_id] == FILE.group_config(group_id).to_json()
    set_lock(steps, 0, "b", "40000")
    assert poll.in_force(now_ms + POLL_MS - 1)["b"] == FILE.group_config("b").to_json()
    assert locks() == {"": 30_000, "a": 30_000, "b": 40_000}
    set_lock(steps, 1, "c", "2000")
    assert locks() == {"": 30_000, "a": 30_000, "b": 40_000, "c": 2_000}
    set_lock(steps, 2, "b", None)
    set_lock(steps, 3, "c", "99999")  # by a job that allowed wider limits
    assert locks() == {"": 30_000, "a": 30_000, "b": 20_000, "c": 60_000}
    assert "group c: share.record.lock.duration.ms 99999 is outside" in caplog.text


def test_the_poll_returns_when_a_request_last_altered_a_group(tmp_path: Path) -> None:
    """This includes a group whose own values were all removed, and one that is only in the file."""
    steps = started(tmp_path, FILE)
    poll = ConfigPoll(file_values(FILE), str(tmp_path), {})
    for batch_id, group_id in enumerate(("b", "c")):
        _, row = altered_row(group_id, T0 + batch_id)
        steps.commit(Batch(batch_id, T0, {"share_group_configs": [row]}, positions={0: batch_id}))
    in_force = poll.in_force(T0)
    assert {group: config.get(LAST_ALTERED_MS) for group, config in in_force.items()} == {
        "": None, "a": None, "b": T0, "c": T0 + 1,
    }  # fmt: skip
    assert GroupConfig.from_json(in_force["c"]) == FILE.group_config("c")
    known = KnownConfigs()
    known.replace(in_force, ["a", "b"])
    assert [known.last_altered_ms(group) for group in ("a", "b", "another")] == [0, T0, 0]
    assert read_group_configs(str(tmp_path)) == {}
