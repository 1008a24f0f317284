"""Rude clients of a gateway, all at once, each kind at a loopback address of its own:

- connections that say nothing, opened again when they are closed
- wrong passwords, so many a second
- half-sent requests of 100 MB, by a user that has logged in
- metadata of all topics, so many a second

A process of its own: says `ready` when all are at it, and at the end of its standard input what came of it, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from kafka.protocol.metadata import MetadataRequest

from sharegroup.kafka_clients.connections import headers as wire
from tests.processes.served_clients import Client

_SILENT, _GUESSING, _HALF, _LISTING = "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"
_FRAME, _SENT, _PIECE = 100_000_000, 60_000_000, 1_000_000
_LISTING_CONNECTIONS = 10
_AGAIN_S = 0.2
_METADATA_VERSION = 12
_PRODUCE_HEADER = struct.pack(">hhih", 0, 9, 1, -1)


class RudeClients:
    """What they do is counted by kind."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._port, self._login = port, f"\0{user}\0{password}".encode()
        self._guess = f"\0{user}\0guess".encode()
        self.counts: Counter[str] = Counter()
        self._begun: Counter[str] = Counter()

    async def run(self, silent: int, guesses: int, half_sent: int, listings: int, ended: asyncio.Event) -> None:
        """Until `ended`."""
        work = [
            *(self._again("silent", self._be_silent) for _ in range(silent)),
            *(self._again("half_sent", self._send_half) for _ in range(half_sent)),
            *(self._again("listings", lambda: self._list(listings)) for _ in range(_LISTING_CONNECTIONS)),
            self._guess_passwords(guesses),
        ]
        tasks = [asyncio.ensure_future(each) for each in work]
        while not (self._begun["silent"] >= silent and self.counts["half_sent"] and self.counts["listings"]):
            await asyncio.sleep(0.1)
        print("ready", flush=True)
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _again(self, kind: str, attack: Callable[[], Awaitable[None]]) -> None:
        while True:
            self._begun[kind] += 1
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await attack()
            await asyncio.sleep(_AGAIN_S)

    async def _connected(self, address: str) -> Client:
        client = Client(self._port, [])
        client.address = address
        return await client.connect()

    async def _logged_in(self, address: str) -> Client:
        client = await self._connected(address)
        await client.handshake()
        code, _ = await client.authenticate(self._login)
        if code:
            raise ConnectionError(f"the login is refused: {code}")
        return client

    async def _be_silent(self) -> None:
        client = await self._connected(_SILENT)
        await client.is_closed()
        self.counts["silent"] += 1

    async def _send_half(self) -> None:
        client = await self._logged_in(_HALF)
        try:
            self.counts["half_sent"] += 1
            client.send(_FRAME.to_bytes(4, "big") + _PRODUCE_HEADER)
            for _ in range(_SENT // _PIECE):
                client.send(bytes(_PIECE))
                await client.writer.drain()
            await client.is_closed()
        finally:
            client.close()

    async def _list(self, rate: int) -> None:
        client = await self._logged_in(_LISTING)
        loop = asyncio.get_running_loop()
        request = bytes(wire.encode_request(MetadataRequest(topics=None), _METADATA_VERSION, 1, "rude"))
        try:
            while True:
                due = loop.time() + _LISTING_CONNECTIONS / rate
                client.send(request)
                self.counts["listed_bytes"] += len(await client.frame())
                self.counts["listings"] += 1
                await asyncio.sleep(max(0.0, due - loop.time()))
        finally:
            client.close()

    async def _guess_passwords(self, rate: int) -> None:
        """As many at a time as are tried a second: who waits for an answer tries no other."""
        guessing: set[asyncio.Task[None]] = set()
        while True:
            if len(guessing) < rate:
                guess = asyncio.ensure_future(self._guess_password())
                guessing.add(guess)
                guess.add_done_callback(guessing.discard)
            await asyncio.sleep(1 / rate)

    async def _guess_password(self) -> None:
        client: Client | None = None
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                client = await self._connected(_GUESSING)
                await client.handshake()
                await client.authenticate(self._guess)
                self.counts["guesses"] += 1
        finally:
            if client is not None:
                client.close()


async def _main(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    clients = RudeClients(options.port, options.user, options.password)
    await clients.run(options.silent, options.guesses, options.half_sent, options.listings, ended)
    print(json.dumps(clients.counts), flush=True)


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--silent", type=int, required=True, help="connections")
    parser.add_argument("--guesses", type=int, required=True, help="a second")
    parser.add_argument("--half-sent", type=int, required=True, help="connections")
    parser.add_argument("--listings", type=int, required=True, help="a second")
    asyncio.run(_main(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
