"""IncrementalAlterConfigs on a group: values that are set, removed, checked, and that outlive the group."""

from dataclasses import replace

import pytest

from sharegroup.config import parse_config
from sharegroup.core.group_coordinator import ConfigureGroup, CoordinatorResult, ShareGroup, TopicPartitions
from sharegroup.core.group_coordinator.records import ShareGroupConfigRecord
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest, DeleteGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS_AND_BILLS, Driver, request

LOCK, SESSION, HEARTBEAT = "share.record.lock.duration.ms", "share.session.timeout.ms", "share.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"
FILE = parse_config({"groups": {GROUP: {LOCK: 20_000}}}, "test")


def alter(driver: Driver, configs: dict[str, str | None], validate_only: bool = False) -> ShareGroupResponse:
    group_id = driver.group.metadata.group_id
    request = AlterConfigsRequest("x", group_id, configs=configs, validate_only=validate_only)
    return driver.administer(request, FILE)


def test_values_can_be_set_and_removed_before_the_group_exists() -> None:
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


def reset_of(driver: Driver) -> list[tuple[str, int, int, int, str | None]]:
    known = driver.group.metadata.share_partitions.values()
    rows = [record for records in known for record in records.values()]
    return [(r.status.value, r.partition, r.state_epoch, r.start_offset, r.auto_offset_reset) for r in rows]


def test_initialization_restarts_with_the_new_auto_offset_reset() -> None:
    """A notice of the initialization with the previous value has no effect."""
    driver = Driver()
    driver.join("a")
    driver.apply(driver.group.handle_initialized([("id-orders", 1, 2)], driver.now_ms))
    driver.send(request("a", 2, None, {"orders": TopicMetadata("id-orders", 3)}))
    alter(driver, {RESET: "earliest"})
    assert reset_of(driver) == [
        ("initializing", 0, 4, -1, "earliest"),
        ("initialized", 1, 2, -1, "latest"),
        ("initializing", 2, 3, 0, None),
    ]
    driver.apply(driver.group.handle_initialized([("id-orders", 0, 2)], driver.now_ms))
    assert reset_of(driver)[0] == ("initializing", 0, 4, -1, "earliest")
    driver.apply(driver.group.handle_initialized([("id-orders", 0, 4)], driver.now_ms))
    assert reset_of(driver)[0] == ("initialized", 0, 4, -1, "earliest")
    assert driver.through_json().metadata == driver.group.metadata


def test_a_reset_that_is_in_force_already_changes_no_share_partition() -> None:
    driver = Driver()
    driver.join("a")
    alter(driver, {RESET: "latest"})
    assert driver.last.records == (ShareGroupConfigRecord(GROUP, RESET, "latest"),)


def test_effective_config_is_sent_to_all_but_deleting_share_partitions() -> None:
    driver = Driver()
    driver.join("a", ["bills", "orders"], ORDERS_AND_BILLS)
    driver.apply(driver.group.handle_initialized([("id-orders", 1, 2)], driver.now_ms))
    driver.topics_deleted("id-bills")
    alter(driver, {SESSION: "60000"})
    config = FILE.effective_group_config(GROUP, {SESSION: "60000"}).config
    topics = (TopicPartitions("orders", "id-orders", (0, 1)),)
    assert driver.last.configure == ConfigureGroup(GROUP, "x", config, topics)
    assert (config.session_timeout_ms, config.record_lock_duration_ms) == (60_000, 20_000)
    alter(driver, {SESSION: None})
    assert driver.last.configure == ConfigureGroup(GROUP, "x", FILE.effective_group_config(GROUP, {}).config, topics)


@pytest.mark.parametrize(
    ("configs", "validate_only"), [({SESSION: "60000"}, True), ({SESSION: None}, False), ({SESSION: "1"}, False)]
)
def test_unchanged_values_send_nothing(configs: dict[str, str | None], validate_only: bool) -> None:
    driver = Driver()
    driver.join("a")
    alter(driver, configs, validate_only)
    assert driver.last._replace(response=None) == CoordinatorResult()


def test_values_outlive_the_group() -> None:
    driver = Driver()
    driver.join("a", metadata={})
    alter(driver, {LOCK: "40000"})
    driver.leave("a")
    driver.administer(DeleteGroupRequest("x", GROUP))
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
    wrong = AlterConfigsRequest("x", GROUP, configs={HEARTBEAT: "7000"})
    told = driver.administer(wrong, job)
    assert told.error_message == f"{SESSION} must be greater than {HEARTBEAT} (6000 and 7000)"
    driver.administer(replace(wrong, configs={SESSION: "45000"}), job)
    assert driver.administer(wrong, job).error_code == 0
    taken = driver.administer(replace(wrong, configs={SESSION: None, LOCK: "20000"}), job)
    assert taken.error_code == ErrorCode.INVALID_CONFIG


def test_validate_only_sets_nothing() -> None:
    driver = Driver()
    assert alter(driver, {LOCK: "40000"}, validate_only=True).error_code == 0
    assert driver.last.records == ()
    assert alter(driver, {LOCK: "1"}, validate_only=True).error_code == ErrorCode.INVALID_CONFIG


def test_blank_group_id_is_rejected() -> None:
    assert alter(Driver(group_id=""), {LOCK: "40000"}).error_code == ErrorCode.INVALID_REQUEST
