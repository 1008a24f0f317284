"""Generated instances of every request that the gateway decodes, in every version.

`OWN_VERSIONS` are the requests that it handles itself, `PASSED_VERSIONS` those that it authorizes and forwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata, sasl

from sharegroup.gateway.passthrough.rule import Rule
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.protocol import messages

OWN_REQUESTS: list[Any] = [
    metadata.ApiVersionsRequest,
    metadata.MetadataRequest,
    metadata.FindCoordinatorRequest,
    admin.DescribeClusterRequest,
    sasl.SaslHandshakeRequest,
    sasl.SaslAuthenticateRequest,
    admin.ListGroupsRequest,
    consumer.LeaveGroupRequest,
    admin.DescribeConfigsRequest,
    admin.DeleteGroupsRequest,
    admin.AlterConfigsRequest,
    admin.IncrementalAlterConfigsRequest,
    admin.ListConfigResourcesRequest,
    *(getattr(messages, name) for name in messages.__all__ if "Share" in name and name.endswith("Request")),
]


def _versions(message: Any) -> range:
    low, high = message.valid_versions
    return range(low, high + 1)


def _versions_of(rule: Rule) -> range:
    low, high = rule.versions or (0, -1)
    return range(low, high + 1)


OWN_VERSIONS = [(message, version) for message in OWN_REQUESTS for version in _versions(message)]
PASSED_VERSIONS = [(rule, version) for rule in RULES.values() if rule.request for version in _versions_of(rule)]
DECODED_VERSIONS = OWN_VERSIONS + [(rule.request, version) for rule, version in PASSED_VERSIONS]


def version_params(versions: Sequence[tuple[Any, int]]) -> list[Any]:
    """Return a parameter for each version. Those between the oldest and the newest of a request are thorough."""
    known = {(request.name, version) for request, version in versions}

    def marks(name: str, version: int) -> Any:
        return pytest.mark.thorough if {(name, version - 1), (name, version + 1)} <= known else ()

    return [
        pytest.param(request, version, id=f"{request.name}-{version}", marks=marks(request.name, version))
        for request, version in versions
    ]


_NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_IDS = st.one_of(st.none(), st.builds(uuid.UUID, int=st.integers(1, 2**128 - 1)))


def bodies(message: Any, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for instances of `message` in this version."""
    return _structs(message, message._struct, version)


def _structs(data_class: Any, schema: Any, version: int) -> st.SearchStrategy[Any]:
    fields = {field.name: _values(field, version) for field in schema.untagged_fields(version)}
    return st.builds(data_class, version=st.just(version), **fields)


def _values(field: Any, version: int) -> st.SearchStrategy[Any]:
    if field.is_struct_array():
        values = st.lists(_structs(field.array_of.data_class, field.array_of, version), max_size=3)
    elif field.is_struct():
        values = _structs(field.data_class, field, version)
    elif field.is_array():
        values = st.lists(_simple(field.array_of.type_str), max_size=4)
    else:
        values = _simple(field.type_str)
    return st.one_of(st.none(), values) if field.nullable_for_version_q(version) else values


def _simple(type_name: str) -> st.SearchStrategy[Any]:
    if type_name in _NUMBERS:
        half = 2 ** (_NUMBERS[type_name] - 1)
        return st.integers(-half, half - 1)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "uint16": st.integers(0, 2**16 - 1),
        "float64": st.floats(allow_nan=False),
        "records": st.binary(max_size=40),
        "uuid": _IDS,
        "string": st.text(max_size=10),
        "bytes": st.binary(max_size=20),
    }
    return simple[type_name]
