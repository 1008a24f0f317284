"""Maximum sizes of requests, by their first bytes."""

from __future__ import annotations

import struct

import pytest

from sharegroup.gateway.clients.request_sizes import MAX_OWN_REQUEST_BYTES, OWN_REQUEST_BYTES, size_problem
from sharegroup.gateway.handlers.api_versions import OWN_VERSIONS

PRODUCE, FIND_COORDINATOR, LEAVE_GROUP, DESCRIBE_CLUSTER, SHARE_FETCH = 0, 10, 13, 60, 78


def head(api_key: int) -> bytes:
    return struct.pack(">h", api_key)


def test_every_api_of_the_gateway_has_a_limit() -> None:
    assert OWN_REQUEST_BYTES.keys() == OWN_VERSIONS.keys() | {FIND_COORDINATOR, DESCRIBE_CLUSTER, LEAVE_GROUP}


@pytest.mark.parametrize(
    ("api_key", "size", "is_refused"),
    [
        (SHARE_FETCH, MAX_OWN_REQUEST_BYTES, False),
        (SHARE_FETCH, MAX_OWN_REQUEST_BYTES + 1, True),
        (DESCRIBE_CLUSTER, 65_536, False),
        (DESCRIBE_CLUSTER, 65_537, True),
        (PRODUCE, 2**31 - 1, False),
        (-1, 2**31 - 1, False),
    ],
)
def test_limit_depends_on_the_api(api_key: int, size: int, is_refused: bool) -> None:
    assert (size_problem(size, head(api_key)) is not None) is is_refused


def test_rejection_names_the_request() -> None:
    problem = size_problem(100_000_000, head(SHARE_FETCH))
    assert problem == f"ShareFetch request has 100000000 bytes; the limit is {MAX_OWN_REQUEST_BYTES}"


def test_empty_frame_is_left_to_the_header_decoder() -> None:
    assert size_problem(0, b"") is None
