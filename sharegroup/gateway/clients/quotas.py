"""Quotas of clients, by Kafka's entities (KIP-13, KIP-55): a YAML file, and what is used of it.

    - {user: alice, client-id: billing, consumer_byte_rate: 1000000}
    - {user: alice, consumer_byte_rate: 5000000, request_rate: 200}
    - {user: <default>, request_rate: 50}

For each of the two rates the first entry counts that says one, in Kafka's order:

    user + client-id, user + <default>, user, <default> + client-id, <default> + <default>, <default>,
    client-id, default client-id

An entry's rate is for all connections together that it names; one for `<default>` is each user's, or client's, own.
What no entry says is the configuration's: for each user, or where nobody logs in for each client id.

Who has used more than its rate is answered all the same, with `throttle_time_ms`, and its connection is not read from
for that long, as Kafka does since KIP-219.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket
from sharegroup.gateway.wire.short_names import short
from sharegroup.security.entry_file import read_entries

DEFAULT = "<default>"
#: As `Caller.principal` begins, and what it is without a login.
_USER, _NOBODY = "User:", "ANONYMOUS"
#: The longest that a connection is not read from: heartbeats of a member may come by it. What is owed stays owed.
MAX_THROTTLE_MS = 15_000
#: Buckets that are kept, before those that are full again are forgotten.
MAX_BUCKETS = 10_000

Rate = Literal["consumer_byte_rate", "request_rate"]


class QuotaEntry(BaseModel):
    """One entry; `<default>` stands for any user, or any client id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str | None = Field(default=None, min_length=1)
    client_id: str | None = Field(default=None, alias="client-id", min_length=1)
    #: Bytes a second of ShareFetch responses.
    consumer_byte_rate: float | None = Field(default=None, gt=0)
    #: Requests a second that the gateway answers itself.
    request_rate: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _says_something(self) -> QuotaEntry:
        if self.user is None and self.client_id is None:
            raise ValueError("an entry needs a user or a client-id")
        if self.consumer_byte_rate is None and self.request_rate is None:
            raise ValueError("an entry needs consumer_byte_rate or request_rate")
        return self


class _Entity(NamedTuple):
    """Who uses a quota together; None: whoever."""

    user: str | None
    client_id: str | None


class Quotas:
    """What clients have used. A rate of 0 is none."""

    def __init__(
        self, entries: Iterable[QuotaEntry] = (), *, consumer_byte_rate: float = 0.0, request_rate: float = 0.0
    ) -> None:
        self._entries = {_Entity(entry.user, entry.client_id): entry for entry in entries}
        self._general: dict[Rate, float] = {"consumer_byte_rate": consumer_byte_rate, "request_rate": request_rate}
        self._is_off = not self._entries and not any(self._general.values())
        self._buckets: dict[tuple[Rate, _Entity], tuple[TokenBucket, float]] = {}

    def used(self, principal: str, client_id: str, fetched_bytes: int, now_ms: float) -> int:
        """A request, and so many bytes of records for it; how long (milliseconds) its client is to send none, or 0."""
        if self._is_off:
            return 0
        user, client_id = principal.removeprefix(_USER), short(client_id)
        waits = [self._spend("request_rate", user, client_id, 1, now_ms)]
        if fetched_bytes:
            waits.append(self._spend("consumer_byte_rate", user, client_id, fetched_bytes, now_ms))
        return min(max(waits), MAX_THROTTLE_MS)

    def _spend(self, kind: Rate, user: str, client_id: str, amount: float, now_ms: float) -> int:
        entity, rate = self._rate(kind, user, client_id)
        return self._bucket(kind, entity, rate, now_ms).spend(amount, now_ms) if rate else 0

    def _rate(self, kind: Rate, user: str, client_id: str) -> tuple[_Entity, float]:
        for key, entity in _entities(user, client_id):
            entry = self._entries.get(key)
            rate: float | None = getattr(entry, kind) if entry is not None else None
            if rate is not None:
                return entity, rate
        return _Entity(None, client_id) if user == _NOBODY else _Entity(user, None), self._general[kind]

    def _bucket(self, kind: Rate, entity: _Entity, rate: float, now_ms: float) -> TokenBucket:
        bucket, of_rate = self._buckets.get((kind, entity), (None, 0.0))
        if bucket is None or of_rate != rate:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets = {key: kept for key, kept in self._buckets.items() if not kept[0].is_full(now_ms)}
            bucket = TokenBucket(rate, now_ms)
            self._buckets[kind, entity] = bucket, rate
        return bucket


def _entities(user: str, client_id: str) -> Iterator[tuple[_Entity, _Entity]]:
    """(the entry's, who uses it together), in Kafka's order."""
    both, of_user, of_client = _Entity(user, client_id), _Entity(user, None), _Entity(None, client_id)
    yield both, both
    yield _Entity(user, DEFAULT), both
    yield of_user, of_user
    yield _Entity(DEFAULT, client_id), both
    yield _Entity(DEFAULT, DEFAULT), both
    yield _Entity(DEFAULT, None), of_user
    yield of_client, of_client
    yield _Entity(None, DEFAULT), of_client


def load_quotas(path: str) -> list[QuotaEntry]:
    """Read the file. Raises InvalidConfigError, also when it cannot be read."""
    parsed, problems = read_entries(path, QuotaEntry)
    named = [(entry.user, entry.client_id) for entry in parsed]
    problems += [f"two entries are for {_told(*entity)}" for entity in dict.fromkeys(named) if named.count(entity) > 1]
    if problems:
        raise InvalidConfigError(path, problems)
    return parsed


def _told(user: str | None, client_id: str | None) -> str:
    named = {"user": user, "client-id": client_id}
    return ", ".join(f"{kind} {name}" for kind, name in named.items() if name is not None)
