"""A member of a share group, with a handler, that kills its own process (SIGKILL) at a given moment.

python -m tests.integration.mortal_member BOOTSTRAP GROUP TOPIC MOMENT

Moments are counted: before a request is sent, after it was sent, after its response was received, and at the begin and
end of each call of the handler. MOMENT 0 never comes. SIGTERM ends the program with code 0.

It prints `handled OFFSET DELIVERY_COUNT` when a call begins, and `acknowledged OFFSET` when the server has confirmed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any

from kafka.protocol.api_message import ApiMessage

from sharegroup.client import Record, RequestError, ShareConsumer
from sharegroup.client.connector import Connection, SocketConnector
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import Response


class Moments:
    """Counts moments and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self._last, self._count = last, 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalConnector(SocketConnector):
    """Opens connections whose requests and responses are moments."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Implement Connector."""
        return _MortalConnection(await super().connect(host, port, settings), self._moments)


class _MortalConnection:
    def __init__(self, connection: Connection, moments: Moments) -> None:
        self._connection, self._moments = connection, moments
        self.api_ranges, self.close = connection.api_ranges, connection.close

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        self._moments.add()
        answer = asyncio.ensure_future(self._connection.ask(request, response, version, timeout_s))
        await asyncio.sleep(0)  # until it is sent
        self._moments.add()
        found = await answer
        self._moments.add()
        return found


def say(line: str) -> None:
    """Print a line that outlives the process."""
    os.write(1, f"{line}\n".encode())


def main(bootstrap_servers: str, group_id: str, topic: str, moment: str) -> None:
    """Handle records until the moment, or until SIGTERM."""
    moments = Moments(int(moment))
    consumer = ShareConsumer(bootstrap_servers, group_id=group_id, topics=[topic], connector=MortalConnector(moments))

    @consumer.handler(concurrency=4, max_in_hand=(40, "1MB"))
    def handle(record: Record[Any]) -> None:
        say(f"handled {record.offset} {record.delivery_count}")
        moments.add()
        moments.add()

    def note(offsets: dict[Any, set[int]], error: RequestError | None) -> None:
        for offset in {each for found in offsets.values() for each in found} if error is None else ():
            say(f"acknowledged {offset}")

    consumer.set_acknowledgement_commit_callback(note)
    consumer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
