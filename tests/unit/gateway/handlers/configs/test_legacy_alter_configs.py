"""AlterConfigs: a group has exactly the configs of the request; other resources are forwarded unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.configs.alter_configs import IncrementalAlterConfigs
from sharegroup.gateway.handlers.configs.legacy_alter_configs import AlterConfigs
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest as AlterConfigsRow
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import (
    EVERYTHING_ALLOWED,
    FixedTables,
    RecordedRequests,
    ScriptedUpstream,
    answer,
)
from tests.unit.gateway.test_admin_configs import Alteration, altered

TOPIC, BROKER, GROUP = 2, 4, 32
DESCRIBE, LEGACY, INCREMENTAL = 32, 33, 44
LOCK, RESET = "share.record.lock.duration.ms", "share.auto.offset.reset"


def answered(request: Any) -> Any:
    """Respond as an upstream that accepts everything."""
    found = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=[
            found(error_code=0, error_message=None, resource_type=item.resource_type, resource_name=item.resource_name)
            for item in request.resources
        ]
    )


def described(request: Any) -> Any:
    """Respond as an upstream where `consumer.x` is set for every group, and `consumer.y` has its default."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            result(
                error_code=0,
                error_message=None,
                resource_type=GROUP,
                resource_name=item.resource_name,
                configs=[
                    entry(name=name, value="1", read_only=False, config_source=source, is_sensitive=False, synonyms=[])
                    for name, source in (("consumer.x", 8), ("consumer.y", 5))
                ],
            )
            for item in request.resources
        ]
    )


class LegacyAlteration:
    """The handler with its collaborators; `g` has its own lock duration and offset reset."""

    def __init__(
        self,
        security: Authorization = EVERYTHING_ALLOWED,
        error: RequestError | None = None,
        versions: dict[int, int] | None = None,
    ) -> None:
        self.requests = RecordedRequests()
        self.cluster = ScriptedUpstream(
            {
                "AlterConfigsRequest": answered,
                "IncrementalAlterConfigsRequest": altered,
                "DescribeConfigsRequest": described,
            },
            versions={LEGACY: 2, INCREMENTAL: 1} if versions is None else versions,
        )
        tables: Any = FixedTables(configs={"g": {LOCK: "40000", RESET: "earliest"}}, error=error)
        cluster: Any = self.cluster
        configs: Any = Alteration()
        incremental = IncrementalAlterConfigs(self.requests, configs, cluster, security)
        self._handler = AlterConfigs(incremental, tables, cluster)

    def alter(self, *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False) -> Any:
        """Alter configs and return {(type, name): error code}."""
        resource = AlterConfigsRequest.AlterConfigsResource
        request = AlterConfigsRequest(
            resources=[
                resource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[resource.AlterableConfig(name=key, value=value) for key, value in configs.items()],
                )
                for kind, name, configs in resources
            ],
            validate_only=validate_only,
        )
        found = answer(self._handler, request, AlterConfigsResponse, 2)
        return {(item.resource_type, item.resource_name): item.error_code for item in found.responses}

    @property
    def changed(self) -> list[tuple[str, Any, bool]]:
        """Return the requests to the job: (group, configs, validate only)."""
        rows = [row for row in self.requests.rows if isinstance(row, AlterConfigsRow)]
        return [(row.group_id, row.configs, row.validate_only) for row in rows]

    def upstream(self, name: str) -> list[tuple[str, list[str]]]:
        """Return the upstream requests of this name: (resource, config names)."""
        asked = [request for request in self.cluster.asked if request.name == name]
        return [
            (item.resource_name, [config.name for config in item.configs])
            for request in asked
            for item in request.resources
        ]


@pytest.mark.parametrize("validate_only", [False, True])
def test_group_has_exactly_the_configs_of_the_request(validate_only: bool) -> None:
    alteration = LegacyAlteration()
    found = alteration.alter((GROUP, "g", {LOCK: "50000"}), (GROUP, "new", {}), validate_only=validate_only)
    assert found == {(GROUP, "g"): 0, (GROUP, "new"): 0}
    assert alteration.changed == [("g", {LOCK: "50000", RESET: None}, validate_only)]
    assert not alteration.upstream("AlterConfigsRequest")


def test_upstreams_configs_of_a_group_are_also_reset() -> None:
    alteration = LegacyAlteration(versions={LEGACY: 2, INCREMENTAL: 1, DESCRIBE: 4})
    assert alteration.alter((GROUP, "h", {"streams.z": "1"})) == {(GROUP, "h"): 0}
    assert alteration.upstream("IncrementalAlterConfigsRequest") == [("h", ["streams.z", "consumer.x"])]
    assert not alteration.changed


def test_other_resources_are_forwarded_unchanged() -> None:
    alteration = LegacyAlteration()
    found = alteration.alter((TOPIC, "t", {"retention.ms": "5"}), (BROKER, "1", {"log.cleaner.threads": "2"}))
    assert found == {(TOPIC, "t"): 0, (BROKER, "1"): 0}
    assert alteration.upstream("AlterConfigsRequest") == [("t", ["retention.ms"]), ("1", ["log.cleaner.threads"])]


def test_jobs_configs_of_a_broker_are_rejected() -> None:
    alteration = LegacyAlteration()
    assert alteration.alter((BROKER, "1", {f"group.{LOCK}": "1"})) == {(BROKER, "1"): ErrorCode.INVALID_CONFIG}
    assert not alteration.cluster.asked


def test_each_resource_requires_its_right() -> None:
    alteration = LegacyAlteration(alice_may("AlterConfigs group g", hidden=("rows",)))
    found = alteration.alter(
        (GROUP, "g", {}), (GROUP, "h", {LOCK: "1"}), (TOPIC, "rows", {"retention.ms": "1"}), (BROKER, "1", {"x": "1"})
    )
    assert found == {(GROUP, "g"): 0, (GROUP, "h"): 30, (TOPIC, "rows"): 29, (BROKER, "1"): 31}
    assert alteration.changed == [("g", {LOCK: None, RESET: None}, False)]
    assert not alteration.upstream("AlterConfigsRequest")


def test_nothing_is_reset_while_the_tables_are_unavailable() -> None:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    alteration = LegacyAlteration(error=RequestError(code, "away"))
    assert alteration.alter((GROUP, "g", {LOCK: "1"})) == {(GROUP, "g"): code}
    assert not alteration.changed


def test_upstream_without_the_api_rejects_only_its_part() -> None:
    alteration = LegacyAlteration(versions={})
    found = alteration.alter((TOPIC, "t", {"retention.ms": "5"}), (GROUP, "g", {LOCK: "50000"}))
    assert found == {(TOPIC, "t"): ErrorCode.UNSUPPORTED_VERSION, (GROUP, "g"): 0}
