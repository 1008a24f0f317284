"""Quotas by Kafka's entities."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.protocol import admin, consumer, metadata

from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.clients.quotas import DEFAULT, MAX_BUCKETS, MAX_THROTTLE_MS, QuotaEntry, Quotas, load_quotas
from sharegroup.gateway.clients.request_sizes import OWN_REQUEST_BYTES
from sharegroup.protocol import messages as share_messages


def entry(user: str | None, client_id: str | None, **rates: float) -> QuotaEntry:
    return QuotaEntry.model_validate({"user": user, "client-id": client_id, **rates})


def owed_ms(quotas: Quotas, user: str, client_id: str, fetched: int = 0, requests: int = 1) -> int:
    """Return how long the last of `requests` simultaneous requests is throttled."""
    return [quotas.record_request(f"User:{user}", client_id, fetched, 0) for _ in range(requests)][-1]


def test_without_quotas_nobody_is_throttled() -> None:
    assert owed_ms(Quotas(), "alice", "c", fetched=10**12, requests=1_000) == 0


#: In Kafka's order of precedence, each with its own rate.
LEVELS = [
    ("alice", "c"),
    ("alice", DEFAULT),
    ("alice", None),
    (DEFAULT, "c"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "c"),
    (None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(LEVELS) + 1))
def test_first_entry_in_kafkas_order_applies(first: int) -> None:
    entries = [entry(*entity, request_rate=level + 1) for level, entity in enumerate(LEVELS)]
    quotas = Quotas(reversed(entries[first:]), request_rate=len(LEVELS) + 1)
    assert owed_ms(quotas, "alice", "c", requests=first + 1) == 0
    assert owed_ms(quotas, "alice", "c") == pytest.approx(1_000 / (first + 1), abs=1)


def test_each_rate_is_resolved_separately() -> None:
    quotas = Quotas([entry("alice", "c", request_rate=1_000), entry("alice", None, consumer_byte_rate=1_000)])
    assert owed_ms(quotas, "alice", "c", fetched=3_000) == 2_000


def test_quota_of_a_user_is_shared_by_its_client_ids() -> None:
    quotas = Quotas([entry("alice", None, request_rate=2)])
    assert [owed_ms(quotas, "alice", f"client {number}") for number in range(3)] == [0, 0, 500]
    assert owed_ms(quotas, "bob", "client 0", requests=10) == 0


@pytest.mark.parametrize(
    ("entity", "is_others"),
    [((DEFAULT, None), False), ((DEFAULT, DEFAULT), True), ((None, DEFAULT), True), (("alice", DEFAULT), True)],
)
def test_default_quota_applies_to_each_entity_separately(
    entity: tuple[str | None, str | None], is_others: bool
) -> None:
    quotas = Quotas([entry(*entity, request_rate=1)])
    assert owed_ms(quotas, "alice", "a", requests=2) == 1_000
    assert (owed_ms(quotas, "alice", "b") == 0) is is_others


def test_configured_rate_applies_per_user_or_anonymous_client_id() -> None:
    quotas = Quotas(request_rate=1)
    assert [owed_ms(quotas, "alice", "a"), owed_ms(quotas, "alice", "b"), owed_ms(quotas, "bob", "a")] == [0, 1_000, 0]
    nobody = [owed_ms(quotas, "ANONYMOUS", client_id) for client_id in ("a", "b", "b")]
    assert nobody == [0, 0, 1_000]


def test_throttle_time_has_a_maximum() -> None:
    quotas = Quotas(consumer_byte_rate=1_000)
    assert owed_ms(quotas, "alice", "c", fetched=10**9) == MAX_THROTTLE_MS
    assert quotas.record_request("User:alice", "c", 1, MAX_THROTTLE_MS) == MAX_THROTTLE_MS


def test_inactive_clients_are_discarded() -> None:
    quotas = Quotas(request_rate=1)
    for number in range(MAX_BUCKETS + 1):
        quotas.record_request(f"User:{number}", "c", 0, float(number))
    assert len(quotas._buckets) <= 1_001


def test_the_file(tmp_path: Path) -> None:
    path = tmp_path / "quotas.yaml"
    path.write_text(
        "- {user: alice, client-id: billing, consumer_byte_rate: 1000000}\n- {user: <default>, request_rate: 50}\n"
    )
    assert load_quotas(str(path)) == [
        entry("alice", "billing", consumer_byte_rate=1_000_000),
        entry(DEFAULT, None, request_rate=50),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice: 5", "the file must be a list of entries"),
        ("- [", "cannot be read"),
        ("- {request_rate: 5}", "entry 1: Value error, an entry must have user or client-id"),
        ("- {user: a}", "entry 1: Value error, an entry must have consumer_byte_rate or request_rate"),
        ("- {user: a, request_rate: 0}", "entry 1: request_rate: Input should be greater than 0"),
        ("- {user: a, producer_byte_rate: 5}", "entry 1: producer_byte_rate: Extra inputs are not permitted"),
        ("- {user: a, request_rate: 5}\n- {user: a, request_rate: 6}", "user a has more than one entry"),
    ],
)
def test_problems_of_the_file_are_reported(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "quotas.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfigError) as caught:
        load_quotas(str(path))
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


@pytest.mark.parametrize("api_key", sorted(OWN_REQUEST_BYTES.keys() - {17, 18, 36}))
def test_every_throttled_response_has_a_throttle_time(api_key: int) -> None:
    """These are all APIs that the gateway handles itself, except those of and before the login."""
    (response,) = {
        message
        for module in (admin, consumer, metadata, share_messages)
        for message in vars(module).values()
        if isinstance(message, type) and message.__name__.endswith("Response") and api_key == message.API_KEY
    }
    assert "throttle_time_ms" in response._struct.fields
