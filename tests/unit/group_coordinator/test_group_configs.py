"""IncrementalAlterConfigs on a group: set, taken away, checked against the file's frames, and outliving the group."""

import pytest

from sharegroup.config import parse_config
from sharegroup.errors import ErrorCode
from sharegroup.group_coordinator import ShareGroup
from sharegroup.group_coordinator.records import ShareGroupConfigRecord
from sharegroup.protocol.request_rows import ALTER_CONFIGS, DELETE_GROUP, ShareGroupRequest
from sharegroup.protocol.response_rows import ShareGroupResponse
from tests.unit.group_coordinator.driver import CONFIG, GROUP, Driver

LOCK, SESSION, HEARTBEAT = "share.record.lock.duration.ms", "share.session.timeout.ms", "share.heartbeat.interval.ms"
FILE = parse_config({"groups": {GROUP: {LOCK: 20_000}}}, "test")


def alter(driver: Driver, configs: dict[str, str | None], validate_only: bool = False) -> ShareGroupResponse:
    group_id = driver.group.metadata.group_id
    request = ShareGroupRequest(ALTER_CONFIGS, "x", group_id, configs=configs, validate_only=validate_only)
    return driver.administer(request, FILE)


def test_values_are_set_and_taken_away_before_the_group_exists() -> None:
    driver = Driver()
    assert alter(driver, {LOCK: "40000", "share.isolation.level": "read_committed"}).error_code == 0
    assert driver.last.records == (
        ShareGroupConfigRecord(GROUP, "share.isolation.level", "read_committed"),
        ShareGroupConfigRecord(GROUP, LOCK, "40000"),
    )
    assert not driver.group.metadata.exists
    alter(driver, {LOCK: "40000", "share.isolation.level": None, "share.delivery.count.limit": None})
    assert driver.last.records == (ShareGroupConfigRecord(GROUP, "share.isolation.level", None),)
    assert driver.group.metadata.configs == {LOCK: "40000"}
    assert driver.through_json().metadata == driver.group.metadata


def test_values_outlive_the_group() -> None:
    driver = Driver()
    driver.join("a", metadata={})
    alter(driver, {LOCK: "40000"})
    driver.leave("a")
    driver.administer(ShareGroupRequest(DELETE_GROUP, "x", GROUP))
    assert (driver.group.is_deleted, driver.group.metadata.configs) == (True, {LOCK: "40000"})
    loaded = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    assert (loaded.metadata.exists, loaded.metadata.configs) == (False, {LOCK: "40000"})


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ({"share.colour": "red"}, "Unknown group config name: share.colour"),
        ({LOCK: "500"}, f"Invalid value 500 for configuration {LOCK}: Value must be at least 1000"),
        ({LOCK: "60001"}, f"{LOCK} must be less than or equal to group.share.max.record.lock.duration.ms"),
        ({LOCK: "14999"}, f"{LOCK} must be greater than or equal to group.share.min.record.lock.duration.ms"),
        ({LOCK: "soon"}, f"Invalid value soon for configuration {LOCK}: Not a whole number"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "Invalid value by_duration:-PT1H for configuration share.a"),
    ],
)
def test_a_wrong_value_changes_nothing(configs: dict[str, str | None], problem: str) -> None:
    driver = Driver()
    response = alter(driver, {**configs, "share.isolation.level": "read_committed"})
    assert response.error_code == ErrorCode.INVALID_CONFIG
    assert (response.error_message or "").startswith(problem)
    assert (driver.last.records, driver.group.metadata.configs) == ((), {})


def test_values_are_checked_together_with_those_there_are() -> None:
    loose = {"group.share.min.session.timeout.ms": 1_000}
    job = parse_config({"group": loose, "groups": {GROUP: {SESSION: 6_000}}}, "test")
    driver = Driver()
    wrong = ShareGroupRequest(ALTER_CONFIGS, "x", GROUP, configs={HEARTBEAT: "7000"})
    told = driver.administer(wrong, job)
    assert told.error_message == f"{SESSION} must be greater than {HEARTBEAT} (6000 and 7000)"
    driver.administer(wrong._replace(configs={SESSION: "45000"}), job)
    assert driver.administer(wrong, job).error_code == 0
    taken = driver.administer(wrong._replace(configs={SESSION: None, LOCK: "20000"}), job)
    assert taken.error_code == ErrorCode.INVALID_CONFIG


def test_validate_only_sets_nothing() -> None:
    driver = Driver()
    assert alter(driver, {LOCK: "40000"}, validate_only=True).error_code == 0
    assert driver.last.records == ()
    assert alter(driver, {LOCK: "1"}, validate_only=True).error_code == ErrorCode.INVALID_CONFIG


def test_a_blank_group_id_is_refused() -> None:
    assert alter(Driver(group_id=""), {LOCK: "40000"}).error_code == ErrorCode.INVALID_REQUEST
