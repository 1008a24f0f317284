"""docs/compatibility.md agrees with the code: handlers, versions, caps, and the tested clients."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import confluent_kafka
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharegroup.config import Config
from sharegroup.gateway.handlers.api_versions import (
    FEATURE_CAPS,
    OWN_VERSIONS,
    SHARE_VERSION,
    VERSION_CAPS,
    ApiVersions,
    supported_features,
)
from sharegroup.gateway.server import Gateway
from sharegroup.kafka_clients.connections.connection import Features
from tests.compatibility_page import ROOT, apis, section, table
from tests.integration.client_programs import CLIENTS, NEWEST
from tests.unit.gateway.scripted_upstream import ScriptedUpstream, answer

#: Requests between brokers, and of the share coordinator.
HIDDEN = {83, 84, 85, 86, 87}
KEYS = {api.name: api.key for api in apis()}


class Kafka43(ScriptedUpstream):
    """A broker with the APIs that the page lists for Kafka 4.3."""

    async def features(self, node_id: int) -> Features:
        response = ApiVersionsResponse(supported_features=[], finalized_features=[], finalized_features_epoch=1)
        return Features({api.key: api.kafka for api in apis()}, response)


def routes() -> dict[int, tuple[Any, Any]]:
    """Return {api key: (request message, handler)} of the gateway."""

    async def made() -> dict[int, tuple[Any, Any]]:
        return dict(Gateway(Config()).parts._routes())

    return asyncio.run(made())


def file_of(handler: Any) -> str:
    """Return the file of a handler, which is a function, a method or a callable object."""
    module = getattr(handler, "__self__", handler)
    name = module.__module__ if hasattr(module, "__code__") else type(module).__module__
    return str(sys.modules[name].__file__).partition("/sharegroup/gateway/")[2]


def caps(pattern: str) -> dict[int, int]:
    """Return {api key: highest version} from phrases like "Produce at 9" that `pattern` matches."""
    return {KEYS[name]: int(high) for name, high in re.findall(pattern, section("APIs")) if name in KEYS}


def test_page_has_the_offered_versions_of_each_api() -> None:
    response = answer(ApiVersions(Kafka43()), ApiVersionsRequest(), ApiVersionsResponse, 4)
    offered = {found.api_key: (found.min_version, found.max_version) for found in response.api_keys}
    assert offered == {api.key: api.gateway for api in apis() if api.gateway is not None}


def test_page_has_exactly_the_handlers_of_the_gateway() -> None:
    assert {api.key: api.handler for api in apis() if api.handler} == {
        key: file_of(handler) for key, (_, handler) in routes().items()
    }
    assert {api.key: f"{api.name}Request" for api in apis() if api.handler} == {
        key: message.name for key, (message, _) in routes().items()
    }


def test_other_apis_are_forwarded_or_between_brokers() -> None:
    rest = [api for api in apis() if not api.handler]
    assert {api.key for api in rest if api.who == "nobody"} == HIDDEN == {api.key for api in rest if not api.gateway}
    assert {api.who for api in rest} == {"nobody", "the broker"}


def test_offered_versions_exist_in_the_messages() -> None:
    for key, (low, high) in OWN_VERSIONS.items():
        message, _ = routes()[key]
        assert message.valid_versions[0] <= low <= high <= message.valid_versions[1], message.name


def test_page_has_the_caps() -> None:
    passed, own = caps(r"(\w+)\s+at\s+(\d+)"), caps(r"(\w+)\s+\(up\s+to\s+(\d+)\)")
    assert passed | own == VERSION_CAPS
    assert set(own) == set(routes()) - set(OWN_VERSIONS)


def test_page_has_the_features() -> None:
    levels = {name.strip("`"): level for name, level, _ in table("Features")}
    (share,) = supported_features(ApiVersionsResponse(supported_features=[]))
    assert (share.name, share.min_version, share.max_version) == (SHARE_VERSION, 1, 1)
    capped = {name: f"up to {cap}" for name, cap in FEATURE_CAPS.items()}
    assert levels == {SHARE_VERSION: "1", **capped, "all others": "the broker's"}


def test_page_has_the_tested_client_versions() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    ivy = (ROOT / "conf" / "ivy.xml").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.MULTILINE))
    (tools,) = re.findall(r'name="kafka-tools" rev="([^"]+)"', ivy)
    librdkafka = confluent_kafka.libversion()[0]
    go_module = (ROOT / "tests" / "integration" / "franz_go" / "go.mod").read_text(encoding="utf-8")
    (franz_go,) = re.findall(r"^require github.com/twmb/franz-go v(\S+)$", go_module, re.MULTILINE)
    expected = {
        "confluent-kafka": f"{pinned['confluent-kafka']}, with librdkafka {librdkafka}",
        "...": f"{pinned['confluent-kafka']}, with librdkafka {librdkafka}",
        "Java:": tools,
        "kafka-python": pinned["kafka-python"],
        "franz-go": franz_go,
        "kcat": "1.7.1",
    }
    rows = table("Clients and tools")
    assert {client.split()[0] for client, *_ in rows} == set(expected)
    for client, version, *_ in rows:
        assert version == expected[client.split()[0]], client


def broker_releases() -> set[str]:
    """Return the releases whose JARs are available."""
    ivy = (ROOT / "conf" / "ivy.xml").read_text(encoding="utf-8")
    return set(re.findall(r'name="kafka_2.13" rev="([^"]+)"', ivy))


def test_page_has_the_tested_broker_releases() -> None:
    assert {release.split(",")[0] for release, *_ in table("Brokers")} == broker_releases()


def test_page_has_the_tests_of_each_client_and_release() -> None:
    head = next(line for line in section("Each client on each release").splitlines() if line.startswith("| client"))
    _, _, *releases = head.strip("| ").split(" | ")
    assert set(releases) == broker_releases() - {"4.4.0"}  # test_gateway_newer_broker.py has that one
    rows = {name.strip("`"): tried for name, _, *tried in table("Each client on each release")}
    assert set(rows) == {*CLIENTS, "tools", "streams"}
    for name, tried in rows.items():
        for release, result in zip(releases, tried, strict=True):
            has_protocol = release.startswith(NEWEST) or not name.endswith("-848")
            assert result in (("yes", "not yet") if has_protocol else ("no such protocol",)), (name, release)


def test_each_java_tool_is_in_its_test() -> None:
    classes = {
        "kafka-console-share-consumer.sh": "ConsoleShareConsumer",
        "kafka-share-consumer-perf-test.sh": "ShareConsumerPerformance",
        "kafka-verifiable-share-consumer.sh": "VerifiableShareConsumer",
        "kafka-producer-perf-test.sh": "ProducerPerformance",
        "kafka-console-producer.sh": "ConsoleProducer",
        "kafka-share-groups.sh": "ShareGroupCommand",
        "kafka-groups.sh": "GroupsCommand",
        "kafka-configs.sh": "ConfigCommand",
        "kafka-console-consumer.sh": "ConsoleConsumer",
        "kafka-topics.sh": "TopicCommand",
        "kafka-consumer-groups.sh": "ConsumerGroupCommand",
        "kafka-get-offsets.sh": "GetOffsetShell",
    }
    rows = {client.split("`")[1]: by for client, _, _, by in table("Clients and tools") if client.startswith("Java")}
    assert set(rows) == set(classes)
    for script, by in rows.items():
        for path in re.findall(r"\(\.\./(tests/\S+\.py)\)", by):
            assert f'.{classes[script]}"' in (ROOT / path).read_text(encoding="utf-8"), (script, path)


def test_each_difference_from_kafka_has_a_reason_and_a_test() -> None:
    rows = table("Differences from Kafka")
    assert rows
    for here, kafka, reason, test in rows:
        assert all((here, kafka, reason)), test
        found = re.fullmatch(r"`(test_\w+)` in \[\S+\.py\]\(\.\./(tests/\S+\.py)\)", test)
        assert found is not None, test
        assert f"def {found[1]}(" in (ROOT / found[2]).read_text(encoding="utf-8"), test
