"""Share consumers of `sharegroup.client` in a new group, and connections that a test can cut or tamper with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from kafka.errors import GroupIdNotFoundError
from kafka.protocol.api_message import ApiMessage

from sharegroup.client import Record, ShareConsumer
from sharegroup.client.connector import Connection, SocketConnector
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import Response
from tests.integration.served import Served
from tests.integration.waiting import PATIENCE_S
from tests.python_client_page import page_programs

EXPLICIT = {"share_acknowledgement_mode": "explicit"}

Key = tuple[int, int]  # partition, offset


class Group(NamedTuple):
    """A share group that reads from the start of its topic."""

    served: Served
    id: str
    topic: str

    def has_members(self, admin: ShareGroupAdmin) -> bool:
        """Return whether a member has joined."""
        try:
            return bool(admin.describe_groups([self.id])[self.id].members)
        except GroupIdNotFoundError:
            return False

    def consumer(self, **settings: Any) -> ShareConsumer:
        """Return a member of the group."""
        settings = {"topics": [self.topic], **settings}
        return ShareConsumer(self.served.bootstrap_servers, group_id=self.id, **settings)


#: `new_client_group(partitions, records, **configs)`
NewGroup = Callable[..., Group]


def page_example(number: int, group: Group) -> str:
    """Return a program of docs/python-client.md that uses this group."""
    program = page_programs()[number]
    for name, real in (
        ("localhost:9192", group.served.bootstrap_servers),
        ("billing", group.id),
        ("orders", group.topic),
    ):
        program = program.replace(f'"{name}"', f'"{real}"')
    return program


def polled(consumer: ShareConsumer) -> Iterator[Record[Any]]:
    """Yield records as polls return them. Raises AssertionError if no record arrives for too long."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        for record in consumer.poll(0.5):
            end_s = time.monotonic() + PATIENCE_S
            yield record
        assert time.monotonic() < end_s, f"no record in {PATIENCE_S} s"


def poll_records(consumer: ShareConsumer, count: int) -> list[Record[Any]]:
    """Poll until so many records arrived."""
    records: list[Record[Any]] = []
    end_s = time.monotonic() + PATIENCE_S
    while len(records) < count:
        records += consumer.poll(0.5)
        assert time.monotonic() < end_s, f"{len(records)} records in {PATIENCE_S} s"
    return records


def keys(records: list[Record[Any]]) -> list[Key]:
    """Return which records these are, in order."""
    return sorted((record.partition, record.offset) for record in records)


class Wire(SocketConnector):
    """A connector whose connections a test can cut. `tamper` sees each request before it is sent."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.tamper: Callable[[ApiMessage], None] = lambda request: None

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Implement Connector."""
        connection = _TamperedConnection(await super().connect(host, port, settings), self)
        self.connections.append(connection)
        return connection

    def tamper_once(self, kind: type[ApiMessage], **fields: Any) -> None:
        """Change fields of the next request of a kind."""

        def tamper(request: ApiMessage) -> None:
            if isinstance(request, kind):
                self.tamper = lambda request: None
                for name, value in fields.items():
                    setattr(request, name, value)

        self.tamper = tamper


class _TamperedConnection:
    def __init__(self, connection: Connection, wire: Wire) -> None:
        self._connection, self._wire = connection, wire
        self.api_ranges, self.close = connection.api_ranges, connection.close

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def ask(
        self: Self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        self._wire.tamper(request)
        return await self._connection.ask(request, response, version, timeout_s)
