"""DescribeConfigs, IncrementalAlterConfigs and ListConfigResources: our part and the upstream's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

from sharegroup.config import Config, GroupOverrides, parse_config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_config_entries import ConfigType, Source, Synonym, config_entries
from sharegroup.gateway.handlers.configs.alter_configs import IncrementalAlterConfigs, split_changes
from sharegroup.gateway.handlers.configs.describe_configs import DescribeConfigs
from sharegroup.gateway.handlers.configs.list_config_resources import ListConfigResources
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest
from sharegroup.security.acl import Acl
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import (
    EVERYTHING_ALLOWED,
    FixedTables,
    RecordedRequests,
    ScriptedUpstream,
    answer,
)

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DESCRIBE, ALTER, LIST = 32, 44, 74
LOCK, RESET, SESSION = "share.record.lock.duration.ms", "share.auto.offset.reset", "share.session.timeout.ms"

CONFIG: Config = parse_config(
    {
        "group": {"group.share.record.lock.duration.ms": 20_000},
        "groups": {"g": {LOCK: 25_000, "share.renew.acknowledge.enable": False}},
    },
    "test",
)


# -- entries


def test_value_has_the_source_that_sets_it() -> None:
    entries = {entry.name: entry for entry in config_entries({LOCK: "40000"}, CONFIG.groups["g"], CONFIG.group)}
    job = "group.share.record.lock.duration.ms"
    assert entries[LOCK].synonyms == (
        Synonym(LOCK, "40000", Source.DYNAMIC_GROUP_CONFIG),
        Synonym(LOCK, "25000", Source.STATIC_BROKER_CONFIG),
        Synonym(job, "20000", Source.STATIC_BROKER_CONFIG),
        Synonym(job, "30000", Source.DEFAULT_CONFIG),
    )
    assert (entries[LOCK].value, entries[LOCK].source) == ("40000", Source.DYNAMIC_GROUP_CONFIG)
    assert entries[RESET].synonyms == (Synonym(RESET, "latest", Source.DEFAULT_CONFIG),)
    renew = entries["share.renew.acknowledge.enable"]
    assert [synonym.value for synonym in renew.synonyms] == ["false", "true"]
    assert entries[SESSION].synonyms == (Synonym("group." + SESSION, "45000", Source.DEFAULT_CONFIG),)


def test_assignor_defaults_to_the_first_of_the_jobs() -> None:
    name, of_job = "share.assignor", "group.share.assignors"
    config = parse_config({"group": {of_job: "all,simple"}}, "test")
    (entry,) = config_entries({name: "simple"}, GroupOverrides(), config.group, [name])
    assert entry.synonyms == (
        Synonym(name, "simple", Source.DYNAMIC_GROUP_CONFIG),
        Synonym(of_job, "all", Source.STATIC_BROKER_CONFIG),
        Synonym(of_job, "simple", Source.DEFAULT_CONFIG),
    )
    assert entry.config_type is ConfigType.STRING


def test_empty_default_stays_empty() -> None:
    (entry,) = config_entries({}, GroupOverrides(), CONFIG.group, ["share.consumer.group.offset.mirror"])
    assert (entry.value, entry.source) == ("", Source.DEFAULT_CONFIG)


def test_job_wide_default_overrides_kafkas() -> None:
    config = parse_config({"group": {"group.share.auto.offset.reset": "earliest"}}, "test")
    (entry,) = config_entries({}, GroupOverrides(), config.group, [RESET])
    assert entry.synonyms == (
        Synonym("group." + RESET, "earliest", Source.STATIC_BROKER_CONFIG),
        Synonym(RESET, "latest", Source.DEFAULT_CONFIG),
    )


# -- describe


def described(request: Any) -> Any:
    """Respond as an upstream with one config per resource, and a share group config for groups."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    names = {
        TOPIC: ["retention.ms"],
        GROUP: ["consumer.session.timeout.ms", LOCK],
        BROKER: ["log.dirs", "group." + LOCK, "group.share.persister.class.name"],
    }
    return DescribeConfigsResponse(
        results=[
            result(
                error_code=0,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    entry(name=name, value="1", read_only=False, config_source=5, is_sensitive=False, synonyms=[])
                    for name in names[resource.resource_type]
                    if resource.configuration_keys is None or name in resource.configuration_keys
                ],
            )
            for resource in request.resources
        ]
    )


def describe(
    *resources: tuple[int, str, list[str] | None],
    version: int = 4,
    cluster: ScriptedUpstream | None = None,
    security: Authorization = EVERYTHING_ALLOWED,
    **options: bool,
) -> list[Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[resource(resource_type=t, resource_name=n, configuration_keys=keys) for t, n, keys in resources],
        include_synonyms=options.get("synonyms", False),
        include_documentation=options.get("documentation", False),
    )
    cluster = cluster or ScriptedUpstream({"DescribeConfigsRequest": described}, versions={DESCRIBE: 4})
    handler = DescribeConfigs(CONFIG, FixedTables(configs={"g": {LOCK: "40000"}}), cluster, security)
    return list(answer(handler, request, DescribeConfigsResponse, version).results)


@pytest.mark.parametrize("version", range(1, 5))
def test_resources_are_described_in_the_order_of_the_request(version: int) -> None:
    results = describe((GROUP, "g", None), (TOPIC, "t", None), (GROUP, "h", None), version=version)
    assert [(item.resource_type, item.resource_name) for item in results] == [(GROUP, "g"), (TOPIC, "t"), (GROUP, "h")]
    values = [{entry.name: entry.value for entry in item.configs} for item in results]
    assert values[1] == {"retention.ms": "1"}
    assert (values[0][LOCK], values[2][LOCK]) == ("40000", "20000")
    assert values[0]["consumer.session.timeout.ms"] == "1"
    assert len(results[0].configs) == len(values[0])


def test_broker_has_the_jobs_share_group_configs_and_its_others() -> None:
    (result,) = describe((BROKER, "1", None), synonyms=True, documentation=True)
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) == len(result.configs)
    assert entries["log.dirs"].value == "1"
    assert "group.share.persister.class.name" not in entries
    lock = entries["group." + LOCK]
    assert (lock.value, lock.config_source, lock.read_only, lock.config_type) == ("20000", 4, True, 3)
    assert [(synonym.value, synonym.source) for synonym in lock.synonyms] == [("20000", 4), ("30000", 5)]
    assert lock.documentation == "Time that an acquired record is locked for its member."
    assert (entries["group.share.max.size"].value, entries["group.share.max.size"].config_source) == ("200", 5)
    assert (entries["group.share.assignors"].value, entries["group.share.assignors"].config_type) == ("simple", 7)
    assert entries["group.share.max.share.sessions"].value == "2000"


def test_only_named_configs_of_a_broker_are_described() -> None:
    (result,) = describe((BROKER, "1", ["group." + LOCK, "log.dirs"]))
    assert [(entry.name, entry.value) for entry in result.configs] == [("log.dirs", "1"), ("group." + LOCK, "20000")]


def test_default_of_all_brokers_has_no_share_group_configs() -> None:
    (result,) = describe((BROKER, "", None))
    assert [entry.name for entry in result.configs] == ["log.dirs"]


def test_named_configs_with_synonyms_and_documentation() -> None:
    (result,) = describe((GROUP, "g", [LOCK]), synonyms=True, documentation=True)
    (entry,) = result.configs
    assert (entry.name, entry.value, entry.config_source, entry.config_type) == (LOCK, "40000", 8, 3)
    assert (entry.read_only, entry.is_sensitive) == (False, False)
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("40000", 8),
        ("25000", 4),
        ("20000", 4),
        ("30000", 5),
    ]
    assert entry.documentation == "Time that an acquired record is locked for its member."


@pytest.mark.parametrize(
    "cluster",
    [
        ScriptedUpstream(),  # does not support the API
        ScriptedUpstream(versions={DESCRIBE: 4}),  # unavailable
        ScriptedUpstream(
            {
                "DescribeConfigsRequest": lambda request: SimpleNamespace(
                    results=[
                        SimpleNamespace(
                            resource_type=GROUP, resource_name="g", error_code=42, error_message="", configs=[]
                        )
                    ]
                )
            },
            versions={DESCRIBE: 2},
        ),  # has no configs of groups
    ],
)
def test_group_is_described_without_the_upstreams_configs(cluster: ScriptedUpstream) -> None:
    (result,) = describe((GROUP, "g", None), cluster=cluster)
    assert not result.error_code
    assert {entry.name for entry in result.configs if entry.config_source == 8} == {LOCK}


def test_describing_configs_requires_its_right() -> None:
    security = alice_may("AlterConfigs group g")
    results = describe(
        (GROUP, "g", None), (GROUP, "h", None), (TOPIC, "t", None), (BROKER, "1", None), security=security
    )
    assert [result.error_code for result in results] == [0, 30, 29, 31]
    assert [bool(result.configs) for result in results] == [True, False, False, False]
    (result,) = describe((GROUP, "", None))
    assert result.error_code == ErrorCode.INVALID_REQUEST


# -- alter


def change(name: str, value: str | None, operation: int = SET) -> Any:
    config = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
    return config(name=name, config_operation=operation, value=value)


def altered(request: Any) -> Any:
    """Respond as an upstream that accepts all but retention.ms=-5 and consumer.session.timeout.ms=1."""
    found = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    wrong = {("retention.ms", "-5"), ("consumer.session.timeout.ms", "1")}
    return IncrementalAlterConfigsResponse(
        responses=[
            found(
                error_code=40 if {(config.name, config.value) for config in item.configs} & wrong else 0,
                error_message="wrong" if {(config.name, config.value) for config in item.configs} & wrong else None,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
            for item in request.resources
        ]
    )


class Alteration:
    """The handler with its collaborators; `alter` returns {(type, name): (error code, message)}."""

    def __init__(
        self, security: Authorization = EVERYTHING_ALLOWED, refusals: dict[str, RequestError] | None = None
    ) -> None:
        self.requests = RecordedRequests(refusals)
        self.cluster = ScriptedUpstream({"IncrementalAlterConfigsRequest": altered}, versions={ALTER: 1})
        self.refreshed = 0
        self._handler = IncrementalAlterConfigs(self.requests, self, self.cluster, security)

    async def refresh(self) -> None:
        self.refreshed += 1

    def alter(self, *resources: tuple[int, str, list[Any]], validate_only: bool = False, version: int = 1) -> Any:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=t, resource_name=n, configs=configs) for t, n, configs in resources],
            validate_only=validate_only,
        )
        response = answer(self._handler, request, IncrementalAlterConfigsResponse, version)
        return {
            (item.resource_type, item.resource_name): (item.error_code, item.error_message)
            for item in response.responses
        }

    @property
    def upstream(self) -> list[tuple[str, list[str], bool]]:
        """Return the upstream requests: (resource, config names, validate only)."""
        return [
            (item.resource_name, [config.name for config in item.configs], request.validate_only)
            for request in self.cluster.asked
            for item in request.resources
        ]


@pytest.mark.parametrize("version", range(2))
def test_configs_are_altered_here_and_upstream(version: int) -> None:
    alteration = Alteration()
    found = alteration.alter(
        (GROUP, "g", [change(LOCK, "40000"), change(RESET, "", DELETE)]),
        (TOPIC, "t", [change("retention.ms", "5")]),
        (TOPIC, "u", [change("retention.ms", "-5")]),
        version=version,
    )
    assert found == {(GROUP, "g"): (0, None), (TOPIC, "t"): (0, None), (TOPIC, "u"): (40, "wrong")}
    row = AlterConfigsRequest("1", "g", "gateway", configs={LOCK: "40000", RESET: None})
    assert alteration.requests.rows == [row]
    assert alteration.upstream == [("t", ["retention.ms"], False), ("u", ["retention.ms"], False)]
    assert alteration.refreshed == 1


def test_jobs_configs_reject_all_changes_of_a_broker() -> None:
    alteration = Alteration()
    found = alteration.alter(
        (BROKER, "1", [change("log.cleaner.threads", "2"), change("group." + LOCK, "40000")]),
        (BROKER, "2", [change("log.cleaner.threads", "2")]),
    )
    message = f"group.{LOCK}: cannot be altered; set it in the configuration file of the share-group job"
    assert found == {(BROKER, "1"): (40, message), (BROKER, "2"): (0, None)}
    assert alteration.upstream == [("2", ["log.cleaner.threads"], False)]


def test_group_may_have_configs_of_both() -> None:
    both = [change(LOCK, "40000"), change("consumer.session.timeout.ms", "50000")]
    alteration = Alteration()
    assert alteration.alter((GROUP, "g", both)) == {(GROUP, "g"): (0, None)}
    theirs = ["consumer.session.timeout.ms"]
    assert alteration.upstream == [("g", theirs, True), ("g", theirs, False)]

    alteration = Alteration()
    wrong = [change(LOCK, "40000"), change("consumer.session.timeout.ms", "1")]
    assert alteration.alter((GROUP, "g", wrong)) == {(GROUP, "g"): (40, "wrong")}
    assert not alteration.requests.rows

    alteration = Alteration(refusals={"g": RequestError(ErrorCode.INVALID_CONFIG, "too short")})
    assert alteration.alter((GROUP, "g", both)) == {(GROUP, "g"): (40, "too short")}
    assert alteration.upstream == [("g", theirs, True)]


def test_validation_changes_nothing() -> None:
    alteration = Alteration()
    both = [change(LOCK, "40000"), change("streams.x", "1")]
    assert alteration.alter((GROUP, "g", both), validate_only=True) == {(GROUP, "g"): (0, None)}
    assert alteration.upstream == [("g", ["streams.x"], True)]
    (row,) = alteration.requests.rows
    assert isinstance(row, AlterConfigsRequest)
    assert row.validate_only
    assert not alteration.refreshed


def test_resource_that_appears_twice_is_rejected() -> None:
    alteration = Alteration()
    once = GROUP, "g", [change(LOCK, "40000")]
    assert alteration.alter(once, once) == {(GROUP, "g"): (42, "Each resource must appear at most once.")}
    assert not alteration.requests.rows


def test_altering_configs_requires_its_right() -> None:
    alteration = Alteration(alice_may("AlterConfigs group g"))
    resources = [(kind, name, [change(LOCK, "40000")]) for kind, name in ((GROUP, "g"), (GROUP, "h"), (TOPIC, "t"))]
    found = alteration.alter(*resources)
    assert [found[GROUP, "g"][0], found[GROUP, "h"][0], found[TOPIC, "t"][0]] == [0, 30, 29]
    assert not alteration.upstream


@pytest.mark.parametrize(
    ("configs", "code", "words"),
    [
        ([change(LOCK, "1"), change(LOCK, "2")], 42, "duplicate config keys"),
        ([change(LOCK, None)], 42, f"Null value not supported for : {LOCK}"),
        ([change(LOCK, "1", APPEND)], 40, "APPEND"),
        ([change("unknown", "1", SUBTRACT)], 40, "SUBTRACT"),
        ([change(LOCK, "1", 9)], 42, "9"),
    ],
)
def test_invalid_changes_are_rejected_with_kafkas_messages(configs: list[Any], code: int, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        split_changes(configs)
    assert refused.value.code == code


def test_unknown_config_name_is_rejected_by_the_job() -> None:
    ours, theirs = split_changes([change("bogus", "1"), change("consumer.x", "2"), change("streams.y", None, DELETE)])
    assert ours == {"bogus": "1"}
    assert [config.name for config in theirs] == ["consumer.x", "streams.y"]


def test_upstream_without_the_api_rejects_only_its_own_part() -> None:
    alteration = Alteration()
    alteration.cluster = ScriptedUpstream()
    handler = IncrementalAlterConfigs(alteration.requests, alteration, ScriptedUpstream(), EVERYTHING_ALLOWED)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(resource_type=TOPIC, resource_name="t", configs=[change("retention.ms", "5")]),
            resource(resource_type=GROUP, resource_name="g", configs=[change(LOCK, "40000")]),
        ],
        validate_only=False,
    )
    response = answer(handler, request, IncrementalAlterConfigsResponse, 1)
    assert {item.resource_name: item.error_code for item in response.responses} == {"t": 35, "g": 0}


# -- list


def list_resources(version: int, types: list[int], upstream_version: int | None) -> tuple[int, set[tuple[int, str]]]:
    def listed(request: Any) -> Any:
        found = [(TOPIC, "t"), (CLIENT_METRICS, "m"), (GROUP, "c")]
        if upstream_version == 0:
            found = [(CLIENT_METRICS, "m")]
        elif request.resource_types:
            found = [item for item in found if item[0] in request.resource_types]
        resources = [SimpleNamespace(resource_type=kind, resource_name=name) for kind, name in found]
        return SimpleNamespace(error_code=0, config_resources=resources)

    versions = {} if upstream_version is None else {LIST: upstream_version}
    cluster = ScriptedUpstream({"ListConfigResourcesRequest": listed}, versions=versions)
    handler = ListConfigResources(FixedTables(configs={"g": {LOCK: "1"}}), cluster, EVERYTHING_ALLOWED)
    request = ListConfigResourcesRequest(resource_types=types) if version else ListConfigResourcesRequest()
    response = answer(handler, request, ListConfigResourcesResponse, version)
    return response.error_code, {(found.resource_type, found.resource_name) for found in response.config_resources}


OURS, METRICS, THEIRS, OF_TOPIC = (GROUP, "g"), (CLIENT_METRICS, "m"), (GROUP, "c"), (TOPIC, "t")


@pytest.mark.parametrize(
    ("version", "types", "upstream_version", "expected"),
    [
        (1, [], 1, {OURS, METRICS, THEIRS, OF_TOPIC}),
        (1, [GROUP], 1, {OURS, THEIRS}),
        (1, [TOPIC], 1, {OF_TOPIC}),
        (1, [], 0, {OURS, METRICS}),
        (1, [GROUP], 0, {OURS}),
        (1, [CLIENT_METRICS], 0, {METRICS}),
        (1, [GROUP, TOPIC], None, {OURS}),
        (0, [], 1, {METRICS}),
        (0, [], 0, {METRICS}),
        (0, [], None, set()),
    ],
)
def test_resources_with_configs_are_listed(
    version: int, types: list[int], upstream_version: int | None, expected: set[tuple[int, str]]
) -> None:
    assert list_resources(version, types, upstream_version) == (0, expected)


def test_listing_resources_requires_its_right() -> None:
    handler = ListConfigResources(FixedTables(), ScriptedUpstream(), Authorization(Acl([])))
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    response = answer(handler, request, ListConfigResourcesResponse, 1)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
