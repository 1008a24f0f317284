"""Requests of every API of the gateway's own with anything in them, and frames that are changed somewhere."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from sharegroup.kafka_clients.connections import headers as wire
from tests.processes.served_clients import UNKNOWN_API_VERSIONS, Client, unknown_api_versions
from tests.unit.gateway.own_requests import OWN_VERSIONS, bodies
from tests.unit.gateway.wire_bytes import framed

NUMBERS = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff", b"\xff\xff\xff\xff\x0f", b"\0" * 8]
#: Produce, Fetch, ListOffsets, InitProducerId, nobody's and hidden ones.
OTHER_API_KEYS = [0, 1, 2, 22, 83, 84, 150, 32_767, -1, -32_768]

#: {field of a message: what is there, so that a request means it}
Aims = Mapping[str, Sequence[Any]]


def requests(aims: Aims | None = None) -> st.SearchStrategy[bytes]:
    """Valid frames, without their lengths; half of the fields that `aims` names are aimed there."""

    def frame(own: tuple[Any, int], body: Any, seed: int) -> bytes:
        message, version = own
        if aims:
            _aim(body, message._struct, version, aims, random.Random(seed))
        return bytes(wire.encode_request(body, version, 7, "fuzz"))[4:]

    return st.sampled_from(OWN_VERSIONS).flatmap(
        lambda own: st.builds(frame, st.just(own), bodies(*own), st.integers(0, 2**64))
    )


def _aim(body: Any, schema: Any, version: int, aims: Aims, choice: random.Random) -> None:
    for field in schema.untagged_fields(version):
        value = getattr(body, field.name)
        if value is None:
            continue
        if field.is_struct_array():
            for each in value:
                _aim(each, field.array_of, version, aims, choice)
        elif field.is_struct():
            _aim(value, field, version, aims, choice)
        elif field.name in aims and choice.random() < 0.5:
            aimed = choice.choice(aims[field.name])
            setattr(body, field.name, [aimed] if field.is_array() else aimed)


def mutated(frame: bytes, choice: random.Random) -> bytes:
    """The frame, with its length, changed somewhere; the header mostly stays, so that the rest is looked at."""
    data = bytearray(frame)
    for _ in range(choice.randrange(4)):
        first = 0 if choice.random() < 0.1 else min(8, len(data))
        place = choice.randrange(first, len(data) + 1)
        kind = choice.randrange(5)
        if kind == 0:
            data[place : place + 1] = choice.randbytes(1)
        elif kind == 1:
            data[place:place] = choice.choice(NUMBERS)
        elif kind == 2:
            del data[place : place + choice.randrange(8)]
        elif kind == 3:
            data[place:place] = data[place - choice.randrange(30) : place]
        else:
            data[place : place + 4] = choice.choice(NUMBERS)[:4]
    if choice.random() < 0.03:
        data[:2] = struct.pack(">h", choice.choice(OTHER_API_KEYS))
    if choice.random() < 0.03:
        data = bytearray(choice.randbytes(choice.randrange(60)))
    whole = framed(bytes(data))
    if choice.random() < 0.01:
        return struct.pack(">i", choice.choice([-1, 2**31 - 1, len(data) + 5, max(0, len(data) - 5)])) + whole[4:]
    return whole


async def is_answered_or_closed(client: Client, frame: bytes) -> bool:
    """Whether the connection goes on. What is answered late (members wait for records) is not waited for."""
    client.send(frame + unknown_api_versions(7))
    try:
        while await asyncio.wait_for(client.frame(), 0.5) != UNKNOWN_API_VERSIONS:
            pass
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        return False
    return True


async def send_all(port: int, frames: Sequence[bytes], login: bytes | None = None) -> int:
    """Each on the connection of the one before it, unless that one closed it; how many connections there were. With
    PLAIN's message `login` each connection logs in first."""
    first = Client(port, [])
    client, connections = None, 0
    for frame in frames:
        if client is None:
            client = await first.another().connect()
            connections += 1
            if login is not None:
                assert await client.handshake() == 0
                assert (await client.authenticate(login))[0] == 0
        if not await is_answered_or_closed(client, frame):
            client.close()
            client = None
    await first.close_all()
    return connections
