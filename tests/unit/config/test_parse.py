"""The values that parse_config accepts, and the sentence for each that it rejects."""

from collections.abc import Mapping

import pytest

from sharegroup.config import (
    AutoOffsetReset,
    Config,
    GroupConfig,
    IsolationLevel,
    OffsetResetStrategy,
    check_group_overrides,
    parse_config,
)
from sharegroup.errors import InvalidConfigError

DEFAULTS = Config()
ASSIGNORS = "list of simple, all, or the dotted names of classes"


def problems(mapping: Mapping[str, object]) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        parse_config(mapping, "test.yaml")
    assert caught.value.source == "test.yaml"
    return list(caught.value.problems)


@pytest.mark.parametrize("mapping", [{}, {"job": None, "group": None, "groups": None}, {"groups": {"orders": None}}])
def test_a_missing_key_has_its_default(mapping: Mapping[str, object]) -> None:
    config = parse_config(mapping, "test.yaml")
    assert (config.job, config.group, config.coordinator) == (DEFAULTS.job, DEFAULTS.group, DEFAULTS.coordinator)
    assert config.group_config("orders") == DEFAULTS.group_config("orders")


def test_defaults_are_kafkas_except_for_record_locks() -> None:
    config = DEFAULTS.group_config("any")
    assert config.to_json() == {
        "session_timeout_ms": 45_000,
        "static_session_timeout_ms": 300_000,
        "heartbeat_interval_ms": 5_000,
        "record_lock_duration_ms": 30_000,
        "static_record_lock_duration_ms": 300_000,
        "delivery_count_limit": 5,
        "partition_max_record_locks": 10_000,
        "renew_acknowledge_enable": True,
        "auto_offset_reset": "latest",
        "isolation_level": "read_uncommitted",
        "consumer_group_offset_mirror": "",
        "assignment_interval_ms": 1_000,
        "assignor": "simple",
        "max_size": 200,
        "client_id_as_instance_id": False,
    }


def test_every_section_is_read() -> None:
    config = parse_config(
        {
            "job": {"operator.shards": 8, "kafka": {"security.protocol": "SSL", "linger.ms": 5, "check.crcs": True}},
            "group": {"group.share.max.size": 10, "share.coordinator.snapshot.update.records.per.snapshot": 0},
            "groups": {
                "orders": {"share.auto.offset.reset": "by_duration:PT1H", "share.isolation.level": "read_committed"}
            },
        },
        "test.yaml",
    )
    assert config.job.operator_shards == 8
    assert config.job.kafka == {"security.protocol": "SSL", "linger.ms": "5", "check.crcs": "true"}
    assert config.group.max_size == 10
    assert config.coordinator.snapshot_update_records_per_snapshot == 0
    orders = config.group_config("orders")
    assert orders.auto_offset_reset == AutoOffsetReset(OffsetResetStrategy.BY_DURATION, 3_600_000)
    assert orders.isolation_level is IsolationLevel.READ_COMMITTED
    assert orders.max_size == 10


def test_a_group_value_overrides_the_jobs() -> None:
    config = parse_config(
        {
            "group": {"group.share.record.lock.duration.ms": 40_000},
            "groups": {"orders": {"share.record.lock.duration.ms": 20_000, "share.renew.acknowledge.enable": False}},
        },
        "test.yaml",
    )
    assert config.group_config("orders").record_lock_duration_ms == 20_000
    assert config.group_config("orders").renew_acknowledge_enable is False
    assert config.group_config("others").record_lock_duration_ms == 40_000
    assert config.group_config("others").renew_acknowledge_enable is True


@pytest.mark.parametrize("assignors", ["all, simple,all", ["all", "simple"]])
def test_the_first_assignor_is_the_default(assignors: object) -> None:
    section = {"group.share.assignors": assignors}
    config = parse_config({"group": section, "groups": {"g": {"share.assignor": "simple"}}}, "x")
    assert config.group.assignors == ("all", "simple")
    assert config.group_config("any").assignor == "all"
    assert config.group_config("g").assignor == "simple"
    assert parse_config({"group": config.group.set_texts()}, "x").group == config.group


def test_an_assignor_may_be_a_class_by_its_dotted_name() -> None:
    kafkas = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
    section = {"group.share.assignors": f"{kafkas},racks.NearestAssignor"}
    config = parse_config({"group": section, "groups": {"g": {"share.assignor": "racks.NearestAssignor"}}}, "x")
    assert config.group.assignors == ("simple", "racks.NearestAssignor")
    assert config.group_config("g").assignor == "racks.NearestAssignor"
    assert GroupConfig.from_json(config.group_config("g").to_json()) == config.group_config("g")


def test_a_group_chooses_among_the_jobs_assignors() -> None:
    expected = "group g: share.assignor must be one of group.share.assignors (all and simple)"
    assert problems({"groups": {"g": {"share.assignor": "all"}}}) == [expected]
    both = {"group": {"group.share.assignors": "fair"}, "groups": {"g": {"share.assignor": "all"}}}
    assert len(problems(both)) == 1, "an invalid value must not be compared with others"


def test_numbers_and_flags_may_be_texts_as_in_kafkas_property_files() -> None:
    config = parse_config(
        {"groups": {"g": {"share.delivery.count.limit": "7", "share.renew.acknowledge.enable": "FALSE"}}}, "x"
    )
    assert config.group_config("g").delivery_count_limit == 7
    assert config.group_config("g").renew_acknowledge_enable is False


@pytest.mark.parametrize(
    ("section", "key", "value", "reason"),
    [
        ("job", "operator.shards", 0, "Value must be at least 1 (allowed: 1..1024)"),
        ("job", "operator.shards", 1025, "Value must be no more than 1024 (allowed: 1..1024)"),
        ("job", "trigger.interval.ms", -1, "Value must be at least 0 (allowed: >= 0)"),
        ("job", "trigger.interval.ms", True, "Not a whole number (allowed: >= 0)"),
        ("job", "trigger.interval.ms", 1.5, "Not a whole number (allowed: >= 0)"),
        ("job", "trigger.interval.ms", "soon", "Not a whole number (allowed: >= 0)"),
        ("job", "tables.retention.ms", 1, "Value must be at least 86400000 (allowed: 86400000..3153600000000)"),
        (
            "job",
            "tables.retention.ms",
            2**63 - 1,
            "Value must be no more than 3153600000000 (allowed: 86400000..3153600000000)",
        ),
        (
            "job",
            "delivery.log.retention.ms",
            2**63 - 1,
            "Value must be no more than 3153600000000 (allowed: 1..3153600000000)",
        ),
        ("job", "tables.path", 5, "Not a string (allowed: string)"),
        ("job", "tables.path", "", "Value must not be empty (allowed: string)"),
        ("job", "share.group.requests.topic", "a b", "Not a valid topic name (allowed: string)"),
        (
            "group",
            "group.share.partition.max.record.locks",
            10_000_001,
            "Value must be no more than 10000000 (allowed: 100..10000000)",
        ),
        (
            "group",
            "group.share.assignors",
            "simple,range,fair",
            f"Unknown assignor range, fair (allowed: {ASSIGNORS})",
        ),
        ("group", "group.share.assignors", "", f"At least one assignor is required (allowed: {ASSIGNORS})"),
        ("group", "group.share.assignors", 5, f"Not a list (allowed: {ASSIGNORS})"),
        ("group", "group.share.delivery.count.limit", 11, "Value must be no more than 10 (allowed: 2..10)"),
        (
            "group",
            "share.coordinator.snapshot.update.records.per.snapshot",
            501,
            "Value must be no more than 500 (allowed: 0..500)",
        ),
    ],
)
def test_an_invalid_value_is_rejected_with_its_bounds(section: str, key: str, value: object, reason: str) -> None:
    assert problems({section: {key: value}}) == [f"Invalid value {value} for configuration {key}: {reason}"]


def test_errors_do_not_show_kafka_properties_as_some_are_passwords() -> None:
    reason = "Property a is not a string (allowed: mapping of strings)"
    expected = f"Invalid value for configuration kafka: {reason}"
    assert problems({"job": {"kafka": {"ssl.key.password": "secret", "a": None}}}) == [expected]


def test_a_key_without_a_value_is_rejected() -> None:
    expected = [
        f"{prefix}Missing value for configuration {key}"
        for prefix, key in (
            ("", "trigger.interval.ms"),
            ("group g: ", "share.session.timeout.ms"),
        )
    ]
    assert (
        problems({"job": {"trigger.interval.ms": None}, "groups": {"g": {"share.session.timeout.ms": None}}})
        == expected
    )


RESETS = "earliest | latest | by_duration:<ISO-8601 duration>"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("share.record.lock.duration.ms", 500, "Value must be at least 1000 (allowed: >= 1000)"),
        ("share.auto.offset.reset", "none", f"Value must be {RESETS} (allowed: {RESETS})"),
        ("share.auto.offset.reset", 5, f"Not a string (allowed: {RESETS})"),
        ("share.isolation.level", "x", "Not one of the known values (allowed: read_uncommitted | read_committed)"),
        ("share.assignor", "range", "Unknown assignor range (allowed: one of group.share.assignors)"),
        ("share.renew.acknowledge.enable", 1, "Expected value to be either true or false (allowed: true | false)"),
    ],
)
def test_an_invalid_group_value_is_rejected_with_its_group(key: str, value: object, reason: str) -> None:
    expected = f"group orders: Invalid value {value} for configuration {key}: {reason}"
    assert problems({"groups": {"orders": {key: value}}}) == [expected]


def test_an_unknown_group_key_is_rejected_with_the_nearest_known_one() -> None:
    expected = "group orders: Unknown group config name: share.assinor; the nearest known name is share.assignor"
    assert problems({"groups": {"orders": {"share.assinor": "all"}}}) == [expected]


def test_an_unknown_group_key_that_resembles_none_has_no_hint() -> None:
    expected = "group orders: Unknown group config name: errors.deadletterqueue.topic.name"
    assert problems({"groups": {"orders": {"errors.deadletterqueue.topic.name": "dlq"}}}) == [expected]


@pytest.mark.parametrize(
    ("end", "value", "bound"),
    [
        ("session.timeout.ms", 60_001, "less than or equal to group.share.max."),
        ("session.timeout.ms", 44_999, "greater than or equal to group.share.min."),
        ("heartbeat.interval.ms", 15_001, "less than or equal to group.share.max."),
        ("heartbeat.interval.ms", 4_999, "greater than or equal to group.share.min."),
        ("assignment.interval.ms", 15_001, "less than or equal to group.share.max."),
        ("partition.max.record.locks", 10_001, "less than or equal to group.share.max."),
        ("delivery.count.limit", 11, "less than or equal to group.share.max."),
        ("record.lock.duration.ms", 60_001, "less than or equal to group.share.max."),
        ("record.lock.duration.ms", 14_999, "greater than or equal to group.share.min."),
    ],
)
def test_a_group_value_outside_the_jobs_bounds_is_rejected(end: str, value: int, bound: str) -> None:
    (problem,) = problems({"groups": {"orders": {f"share.{end}": value}}})
    assert problem.startswith(f"group orders: share.{end} must be {bound}{end} ({value} and ")


@pytest.mark.parametrize(
    ("values", "upper", "lower"),
    [
        ({"session.timeout.ms": 60_001}, "max.session.timeout.ms", "session.timeout.ms"),
        ({"session.timeout.ms": 44_999}, "session.timeout.ms", "min.session.timeout.ms"),
        ({"heartbeat.interval.ms": 15_001}, "max.heartbeat.interval.ms", "heartbeat.interval.ms"),
        ({"max.assignment.interval.ms": 999}, "max.assignment.interval.ms", "assignment.interval.ms"),
        ({"partition.max.record.locks": 10_001}, "max.partition.max.record.locks", "partition.max.record.locks"),
        (
            {"delivery.count.limit": 2, "min.delivery.count.limit": 3},
            "delivery.count.limit",
            "min.delivery.count.limit",
        ),
        ({"record.lock.duration.ms": 14_999}, "record.lock.duration.ms", "min.record.lock.duration.ms"),
    ],
)
def test_min_value_and_max_must_be_in_order(values: Mapping[str, int], upper: str, lower: str) -> None:
    (problem,) = problems({"group": {f"group.share.{end}": value for end, value in values.items()}})
    assert problem.startswith(f"group.share.{upper} must be greater than or equal to group.share.{lower} (")


def test_max_share_sessions_must_not_be_below_the_group_size() -> None:
    values = {"group": {"group.share.max.size": 300}, "gateway": {"group.share.max.share.sessions": 299}}
    expected = "group.share.max.share.sessions must be greater than or equal to group.share.max.size (299 and 300)"
    assert problems(values) == [expected]
    assert parse_config({**values, "group": {}}, "x.yaml").gateway.max_share_sessions == 299


def test_max_below_min_is_rejected() -> None:
    expected = problems({"group": {"group.share.min.session.timeout.ms": 61_000, "group.share.session.timeout.ms": 0}})
    assert expected[1:] == [
        "group.share.max.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms "
        "(60000 and 61000)"
    ]


def test_a_session_must_be_longer_than_the_heartbeat_interval() -> None:
    values = {"group.share.session.timeout.ms": 5_000, "group.share.min.session.timeout.ms": 5_000}
    expected = "group.share.session.timeout.ms must be greater than group.share.heartbeat.interval.ms (5000 and 5000)"
    assert problems({"group": values}) == [expected]


def test_a_group_session_must_be_longer_than_its_heartbeat_interval() -> None:
    job = {"group.share.min.session.timeout.ms": 1_000, "group.share.min.heartbeat.interval.ms": 1}
    shorter = {"share.session.timeout.ms": 5_000}
    expected = "group g: share.session.timeout.ms must be greater than share.heartbeat.interval.ms (5000 and 5000)"
    assert problems({"group": job, "groups": {"g": shorter}}) == [expected]
    both = {"g": {"share.session.timeout.ms": 5_000, "share.heartbeat.interval.ms": 1_000}}
    assert parse_config({"group": job, "groups": both}, "x").group_config("g").heartbeat_interval_ms == 1_000


def test_a_rule_is_skipped_if_one_of_its_keys_is_invalid() -> None:
    values = {"group.share.max.session.timeout.ms": "long", "group.share.session.timeout.ms": 70_000}
    groups = {"g": {"share.session.timeout.ms": 80_000}}
    assert problems({"group": values, "groups": groups}) == [
        "Invalid value long for configuration group.share.max.session.timeout.ms: Not a whole number (allowed: >= 1)"
    ]


def test_a_rule_of_a_group_is_skipped_if_the_jobs_value_is_invalid() -> None:
    values = {"group.share.heartbeat.interval.ms": "often", "group.share.min.session.timeout.ms": 1_000}
    groups = {"g": {"share.session.timeout.ms": 2_000}}
    assert problems({"group": values, "groups": groups}) == [
        "Invalid value often for configuration group.share.heartbeat.interval.ms: Not a whole number (allowed: >= 1)"
    ]


def test_all_problems_are_listed_together() -> None:
    expected = problems(
        {
            "jbo": {},
            "job": {"operator.shard": 1, "operator.shards": 0, "trigger.interval.ms": -1, "group.share.max.size": 5},
            "group": {
                "share.session.timeout.ms": 1,
                "group.share.max.size": 0,
                "group.share.session.timeout.ms": 70_000,
            },
            "groups": {"a": {"share.delivery.count.limit": 1}, "b": "latest"},
        }
    )
    assert expected == [
        "Unknown section jbo; the nearest known name is job",
        "Unknown configuration operator.shard in section job; the nearest known name is operator.shards",
        "Unknown configuration group.share.max.size in section job; it belongs in section group",
        "Unknown configuration share.session.timeout.ms in section group; it belongs to a group in section groups",
        "Invalid value 0 for configuration operator.shards: Value must be at least 1 (allowed: 1..1024)",
        "Invalid value -1 for configuration trigger.interval.ms: Value must be at least 0 (allowed: >= 0)",
        "Invalid value 0 for configuration group.share.max.size: Value must be at least 1 (allowed: 1..1000)",
        "group.share.max.session.timeout.ms must be greater than or equal to group.share.session.timeout.ms "
        "(60000 and 70000)",
        "group a: Invalid value 1 for configuration share.delivery.count.limit: "
        "Value must be at least 2 (allowed: >= 2)",
        "Section groups.b must be a mapping of keys to values",
    ]


def test_check_group_overrides_returns_the_valid_values() -> None:
    overrides, expected = check_group_overrides({"share.delivery.count.limit": 3, "share.typo": 1}, DEFAULTS.group)
    assert overrides.set_values() == {"share.delivery.count.limit": 3}
    assert len(expected) == 1
