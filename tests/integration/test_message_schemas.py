"""Our message schemas, and kafka-python's that the gateway answers with, against those in the kafka-clients JAR."""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from kafka.protocol.schemas import resources
from kafka.protocol.schemas.load_json import load_json

from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.protocol import messages
from sharegroup.protocol.acknowledge_rules import IS_UNUSED_TAG
from sharegroup.spark.jars import jars
from tests.compatibility_page import apis

#: kafka-python's, which the gateway reads and writes itself
THEIRS = [
    f"{name}{kind}"
    for name in (
        "ApiVersions",
        "DeleteGroups",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeGroups",
        "FindCoordinator",
        "IncrementalAlterConfigs",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "Metadata",
        "SaslAuthenticate",
        "SaslHandshake",
    )
    for kind in ("Request", "Response")
]
#: kafka-python's, of what the gateway reads on its way to a broker.
PASSED = sorted(
    message.name
    for rule in RULES.values()
    for message in (rule.request, rule.response)
    if message is not None and message.name not in (*THEIRS, *messages.__all__)
)
_COMMENT = re.compile(r"(?m)^\s*//.*$")


@cache
def kafkas_schemas() -> dict[str, dict[str, Any]]:
    """The schemas of Kafka 4.3, by message name."""
    (jar,) = (path for path in jars("tools") if path.name.startswith("kafka-clients-4.3."))
    with zipfile.ZipFile(jar) as entries:
        texts = (
            entries.read(name).decode() for name in entries.namelist() if re.match(r"common/message/.+\.json", name)
        )
        schemas = (json.loads(_COMMENT.sub("", text)) for text in texts)
        return {schema["name"]: schema for schema in schemas}


def wire_format(schema: dict[str, Any]) -> dict[str, Any]:
    """What of a schema decides about bytes and defaults: no comments, and no notes for Kafka's code generator."""
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    first_version = int(schema["validVersions"].split("-")[0])
    return {
        **{key: schema.get(key) for key in ("apiKey", "type", "name", "validVersions", "flexibleVersions")},
        "fields": [_field(field, shared, first_version) for field in schema["fields"]],
    }


def _field(field: dict[str, Any], shared: dict[str, Any], first_version: int) -> dict[str, Any]:
    inner = field.get("fields") or shared.get(field["type"].removeprefix("[]"))
    kept = ("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "flexibleVersions")
    return {
        **{key: field.get(key) for key in kept},
        "default": _default(field),
        "fields": [_field(each, shared, first_version) for each in inner if not _gone(each, first_version)]
        if inner
        else None,
    }


def _gone(field: dict[str, Any], first_version: int) -> bool:
    """Whether no version that is still valid has the field."""
    last = re.fullmatch(r"(?:\d+-)?(\d+)", field["versions"])
    return last is not None and int(last[1]) < first_version


def _default(field: dict[str, Any]) -> Any:
    """A default written out that is the type's own anyway, or as 0x7f, or without quotes, is the same default."""
    default = field.get("default")
    if default is None or default == "null":
        return default
    if field["type"].startswith("int"):
        return int(str(default), 0) or None
    return None if str(default).lower() in ("", "false") else str(default).lower()


def our_schema(name: str) -> dict[str, Any]:
    """One of our schemas, without our tagged field of acknowledgements."""
    schema = json.loads(files(messages).joinpath(f"{name}.json").read_text())
    _remove_tagged(schema, IS_UNUSED_TAG)
    return schema


def _remove_tagged(node: dict[str, Any], tag: int) -> None:
    if "fields" in node:
        node["fields"] = [field for field in node["fields"] if field.get("tag") != tag]
        for field in node["fields"]:
            _remove_tagged(field, tag)


@pytest.mark.parametrize("name", messages.__all__)
def test_our_schema_is_kafkas(name: str) -> None:
    assert wire_format(our_schema(name)) == wire_format(kafkas_schemas()[name])


@pytest.mark.parametrize("name", messages.__all__)
def test_our_schema_has_nothing_else_in_it(name: str) -> None:
    """Data only: each key of ours is one that the comparison looks at."""

    def keys(node: dict[str, Any]) -> set[str]:
        return set(node).union(*(keys(field) for field in node.get("fields", ())))

    assert keys(our_schema(name)) <= {
        *("apiKey", "type", "name", "validVersions", "flexibleVersions", "fields"),
        *("versions", "nullableVersions", "default"),
    }


@pytest.mark.parametrize("name", [*THEIRS, *PASSED])
def test_kafka_pythons_schema_is_kafkas(name: str) -> None:
    assert files(resources).joinpath(f"{name}.json").is_file()
    assert wire_format(load_json(name)) == wire_format(kafkas_schemas()[name])


def test_the_compatibility_page_has_each_api_that_clients_may_send_to_a_broker() -> None:
    assert {(api.key, api.name): api.kafka for api in apis()} == {
        (schema["apiKey"], name.removesuffix("Request")): _stable_versions(schema)
        for name, schema in kafkas_schemas().items()
        if "broker" in schema.get("listeners", ())
    }


def _stable_versions(schema: dict[str, Any]) -> tuple[int, int]:
    low, _, high = schema["validVersions"].partition("-")
    return int(low), int(high or low) - bool(schema.get("latestVersionUnstable"))
