"""Stored group values: they take precedence over the file, and an invalid one never stops a group (KIP-1240)."""

import json
import pickle

import pytest

from sharegroup.config import (
    AutoOffsetReset,
    GroupConfig,
    IsolationLevel,
    OffsetResetStrategy,
    parse_config,
)
from sharegroup.errors import InvalidConfigError

CONFIG = parse_config(
    {"groups": {"orders": {"share.delivery.count.limit": 7, "share.auto.offset.reset": "earliest"}}}, "x"
)


def test_stored_values_override_the_file_and_the_file_overrides_the_job() -> None:
    config, warnings = CONFIG.effective_group_config(
        "orders", {"share.delivery.count.limit": "3", "share.isolation.level": "read_committed"}
    )
    assert warnings == ()
    assert config.delivery_count_limit == 3
    assert config.isolation_level is IsolationLevel.READ_COMMITTED
    assert config.auto_offset_reset.strategy is OffsetResetStrategy.EARLIEST
    assert config.session_timeout_ms == 45_000


def test_without_stored_values_the_file_applies() -> None:
    assert CONFIG.effective_group_config("orders", {}) == (CONFIG.group_config("orders"), ())


def test_values_outside_the_jobs_bounds_are_clamped_with_a_warning() -> None:
    stored = {"share.delivery.count.limit": 25, "share.session.timeout.ms": 1_000}
    config, warnings = CONFIG.effective_group_config("g", stored)
    assert (config.delivery_count_limit, config.session_timeout_ms) == (10, 45_000)
    assert warnings == (
        "share.session.timeout.ms 1000 is outside the limit group.share.min.session.timeout.ms 45000; "
        "the limit is used instead",
        "share.delivery.count.limit 25 is outside the limit group.share.max.delivery.count.limit 10; "
        "the limit is used instead",
    )


def test_a_stored_assignor_that_was_removed_is_replaced_by_the_first() -> None:
    config, warnings = CONFIG.effective_group_config("g", {"share.assignor": "all"})
    assert config.assignor == "simple"
    assert warnings == ("share.assignor all is not one of group.share.assignors simple; the first of these is used",)


def test_an_invalid_stored_value_is_ignored_with_a_warning() -> None:
    config, warnings = CONFIG.effective_group_config("orders", {"share.delivery.count.limit": "many", "share.typo": 1})
    assert config == CONFIG.group_config("orders")
    assert warnings == (
        "Unknown group config name: share.typo",
        "Invalid value many for configuration share.delivery.count.limit: Not a whole number (allowed: >= 2)",
    )


@pytest.mark.parametrize("heartbeat_ms", [6_000, 7_000])
def test_a_session_timeout_below_the_heartbeat_interval_is_replaced(heartbeat_ms: int) -> None:
    job = parse_config({"group": {"group.share.min.session.timeout.ms": 1_000}}, "x")
    stored = {"share.session.timeout.ms": 6_000, "share.heartbeat.interval.ms": heartbeat_ms}
    config, (warning,) = job.effective_group_config("g", stored)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45_000, 5_000)
    expected = f"share.session.timeout.ms 6000 is not greater than share.heartbeat.interval.ms {heartbeat_ms}; "
    assert warning == expected + "the job's values are used"


def test_a_config_is_converted_to_json_and_back() -> None:
    config, _ = CONFIG.effective_group_config(
        "g", {"share.auto.offset.reset": "by_duration:P1D", "share.renew.acknowledge.enable": "false"}
    )
    assert GroupConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert config.auto_offset_reset == AutoOffsetReset(OffsetResetStrategy.BY_DURATION, 86_400_000)


def test_json_of_another_version_is_read() -> None:
    config = GroupConfig.from_json({"delivery_count_limit": 3, "of_a_later_version": 1})
    assert config.delivery_count_limit == 3
    assert config.session_timeout_ms == 45_000


def test_a_config_can_be_pickled_for_an_executor() -> None:
    assert pickle.loads(pickle.dumps(CONFIG)) == CONFIG


def test_the_job_has_defaults_of_offset_reset_and_isolation_level() -> None:
    of_job = {"group.share.auto.offset.reset": "by_duration:PT1H", "group.share.isolation.level": "read_committed"}
    config = parse_config({"group": of_job, "groups": {"own": {"share.auto.offset.reset": "latest"}}}, "test")
    assert str(config.group_config("any").auto_offset_reset) == "by_duration:PT3600S"
    assert config.group_config("any").isolation_level is IsolationLevel.READ_COMMITTED
    assert str(config.group_config("own").auto_offset_reset) == "latest"
    stored = config.effective_group_config("any", {"share.isolation.level": "read_uncommitted"}).config
    assert stored.isolation_level is IsolationLevel.READ_UNCOMMITTED
    again = parse_config({"group": config.group.set_texts()}, "the texts that sources are handed")
    assert again.group == config.group


@pytest.mark.parametrize(
    ("key", "value"), [("group.share.auto.offset.reset", "never"), ("group.share.isolation.level", "snapshot")]
)
def test_a_wrong_default_of_the_job_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"Invalid value {value} for configuration {key}"):
        parse_config({"group": {key: value}}, "test")


def test_each_cells_metrics_have_a_port_of_their_own() -> None:
    config = parse_config({"job": {"metrics.port": 9300}, "cells": {"cell.names": "a, b"}}, "test")
    assert [config.for_cell(cell).job.metrics_port for cell in ("a", "b")] == [9300, 9301]
    off = parse_config({"cells": {"cell.names": "a, b"}}, "test")
    assert off.for_cell("b").job.metrics_port == 0


def test_a_group_cannot_be_its_own_offset_mirror() -> None:
    key = "share.consumer.group.offset.mirror"
    config = parse_config({"groups": {"g": {key: "g-lag"}}}, "test")
    assert config.group_config("g").consumer_group_offset_mirror == "g-lag"
    with pytest.raises(InvalidConfigError, match=f"group g: {key} must not be the group g itself"):
        parse_config({"groups": {"g": {key: "g"}}}, "test")
