"""Guesses of passwords at the page, over ASGI."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sharegroup.config import GatewayConfig
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.ui.app import application
from tests.unit.ui.seen import group, parts

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"
LONG_MS = 10_000
MOST_WAITING = 16

Get = Callable[[str, str, str], Awaitable[int]]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.yaml"
    path.write_text("\n".join(hash_password(user, f"{user}'s") for user in ("alice", "bob")), encoding="utf-8")
    return path


def run(users: Path, test: Callable[[Get], Awaitable[None]], delay_ms: int = LONG_MS) -> None:
    """Run a test with a function that returns the status of a page for an address, a user and a password."""
    keys = {
        "gateway.sasl.users.location": str(users),
        "gateway.connection.failed.authentication.delay.ms": delay_ms,
    }
    app = application(parts([group("g")]), GatewayConfig.model_validate(keys), "0.0.0.0")

    async def get(address: str, user: str, password: str) -> int:
        login = b"Basic " + base64.b64encode(f"{user}:{password}".encode())
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "client": (address, 1)}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope | {"headers": [(b"authorization", login)]}, receive, send)
        return int(sent[0]["status"])

    async def main() -> None:
        await test(get)

    asyncio.run(asyncio.wait_for(main(), 120))
    app.close()


def test_an_address_waits_after_a_wrong_password(users: Path) -> None:
    """Other addresses, and users that logged in from there before, do not wait."""

    async def test(get: Get) -> None:
        assert await get(HERE, "alice", "alice's") == 200
        began = time.monotonic()
        guesses = [asyncio.ensure_future(get(HERE, "alice", f"guess {n}")) for n in range(MOST_WAITING)]
        await asyncio.sleep(0)
        assert await get(HERE, "alice", "one more") == 503
        assert await get(HERE, "alice", "alice's") == 200
        assert await get(ELSEWHERE, "bob", "bob's") == 200
        answered = sum(guess.done() for guess in guesses)
        assert answered <= (time.monotonic() - began) * 1000 / LONG_MS

    run(users, test)


def test_a_wrong_password_is_rejected_after_the_delay(users: Path) -> None:
    async def test(get: Get) -> None:
        statuses = await asyncio.gather(*(get(HERE, "alice", password) for password in ("x", "alice's", "y")))
        assert statuses == [401, 200, 401]

    run(users, test, delay_ms=1)
