"""Client quotas for users and client ids (KIP-13, KIP-55). They are read from a YAML file and applied to requests.

    - {user: alice, client-id: billing, consumer_byte_rate: 1000000}
    - {user: alice, consumer_byte_rate: 5000000, request_rate: 200}
    - {user: <default>, request_rate: 50}

Several entries can match a client. `consumer_byte_rate` and `request_rate` are looked up separately: the first matching
entry that sets the rate applies. Entries are searched in Kafka's order:

    user + client-id, user + <default>, user, <default> + client-id, <default> + <default>, <default> as user,
    client-id, <default> as client-id

All connections that match an entry share its rate. With `<default>`, each user or client id has a separate rate. If no
entry sets a rate, the rate in the gateway's configuration applies to each user. If clients do not log in, it applies to
each client id.

A client that exceeds its rate still receives its response, which contains `throttle_time_ms`. For this time, the
gateway handles no further requests of the connection, as Kafka does since KIP-219.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket
from sharegroup.protocol.short_names import shorten_name
from sharegroup.security.entry_file import read_entries

DEFAULT = "<default>"
#: The prefix of `Caller.principal`, and the name in the principal of a client without a login.
_USER, _NOBODY = "User:", "ANONYMOUS"
#: The longest throttle time. A longer one could delay the heartbeats of a member too much. The client waits for the
#: remaining time after its later requests.
MAX_THROTTLE_MS = 15_000
#: If there are more token buckets than this, full ones are deleted. A full bucket does not differ from a new one.
MAX_BUCKETS = 10_000

Rate = Literal["consumer_byte_rate", "request_rate"]


class QuotaEntry(BaseModel):
    """One entry of the quota file. `<default>` means any user or any client id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str | None = Field(default=None, min_length=1)
    client_id: str | None = Field(default=None, alias="client-id", min_length=1)
    #: Bytes per second of ShareFetch responses.
    consumer_byte_rate: float | None = Field(default=None, gt=0)
    #: Requests per second. Only requests that the gateway handles itself are counted.
    request_rate: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _is_complete(self) -> QuotaEntry:
        if self.user is None and self.client_id is None:
            raise ValueError("an entry must have user or client-id")
        if self.consumer_byte_rate is None and self.request_rate is None:
            raise ValueError("an entry must have consumer_byte_rate or request_rate")
        return self


class _Entity(NamedTuple):
    """The key of a quota entry, or a group of clients that share a rate.

    None as `user` means any user. None as `client_id` means any client id.
    """

    user: str | None
    client_id: str | None


class Quotas:
    """The quotas of all clients, and their current usage.

    `consumer_byte_rate` and `request_rate` apply to clients for which no entry sets this rate. 0 means no limit.
    """

    def __init__(
        self, entries: Iterable[QuotaEntry] = (), *, consumer_byte_rate: float = 0.0, request_rate: float = 0.0
    ) -> None:
        self._entries = {_Entity(entry.user, entry.client_id): entry for entry in entries}
        self._general: dict[Rate, float] = {"consumer_byte_rate": consumer_byte_rate, "request_rate": request_rate}
        self._is_off = not self._entries and not any(self._general.values())
        self._buckets: dict[tuple[Rate, _Entity], tuple[TokenBucket, float]] = {}

    def record_request(self, principal: str, client_id: str, fetched_bytes: int, now_ms: float) -> int:
        """Record the usage of one request, and return the throttle time of its response in ms.

        `fetched_bytes` is the size of a ShareFetch response, and 0 for other APIs.
        """
        if self._is_off:
            return 0
        user, client_id = principal.removeprefix(_USER), shorten_name(client_id)
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
    """Yield (key of a quota entry, clients that share its rate) for each entry that would apply to a client.

    The entries need not exist. The order is Kafka's precedence: the first existing entry that sets the rate applies.
    For example, the entry for `<default>` users gives each user a rate of its own, which all clients of the user share.
    """
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
    """Read the quota file and return its entries. Raises InvalidConfigError if it cannot be read or is not valid."""
    parsed, problems = read_entries(path, QuotaEntry)
    entities = [(entry.user, entry.client_id) for entry in parsed]
    problems += [
        f"{_described(*entity)} has more than one entry"
        for entity in dict.fromkeys(entities)
        if entities.count(entity) > 1
    ]
    if problems:
        raise InvalidConfigError(path, problems)
    return parsed


def _described(user: str | None, client_id: str | None) -> str:
    parts = {"user": user, "client-id": client_id}
    return ", ".join(f"{kind} {name}" for kind, name in parts.items() if name is not None)
