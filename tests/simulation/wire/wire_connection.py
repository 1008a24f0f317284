"""A client's connections to gateways: messages take a while, and end with the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_process import GatewayConnection, SimulatedGateway
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class ConnectionLostError(Exception):
    """The connection broke, or could not be made: what was sent may have had its effect."""


class Answer(NamedTuple):
    """A response, and when the gateway made it (milliseconds since the epoch, the true time)."""

    message: Any
    made_ms: int


class Connection:
    """To the port of one broker at one gateway; made with the first request. `host` names the client."""

    def __init__(
        self,
        clock: Scheduler,
        weather: Weather,
        loop: VirtualLoop,
        gateway: SimulatedGateway,
        node_id: int,
        host: str,
    ) -> None:
        self.gateway, self.node_id = gateway, node_id
        self._clock, self._weather, self._loop, self._host = clock, weather, loop, host
        self._far_end: GatewayConnection | None = None
        self._waiting: dict[asyncio.Future[Answer], None] = {}
        self.is_lost = False
        #: Called when it ends, whichever side ends it, before the client can know of it.
        self.on_end: Callable[[], None] = lambda: None

    async def ask(self, message: Any, version: int, timeout_s: float = 60.0) -> Answer:
        """The response. Raises ConnectionLostError."""
        if self._far_end is None and not self.is_lost:
            await asyncio.sleep(self._latency_ms() / 1000)
            self._far_end = self.gateway.connect(self.node_id, self._host, self._broken)
            self.is_lost = self._far_end is None
        far_end = self._far_end
        if self.is_lost or far_end is None:
            raise ConnectionLostError(f"{self.gateway.name} refuses a connection")
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[waiting] = None

        def answered(response: Any, made_ms: int) -> None:
            self._clock.after(self._latency_ms(), lambda: self._settle(waiting, Answer(response, made_ms)))

        self._clock.after(self._latency_ms(), lambda: far_end.request(message, version, answered))
        try:
            return await asyncio.wait_for(waiting, timeout_s)
        except TimeoutError:
            self.close()
            raise ConnectionLostError("no answer in time") from None
        finally:
            self._waiting.pop(waiting, None)

    def close(self, seen_after_ms: float = 0.0) -> None:
        """The client ends it; the gateway sees that a while after the last message, or when it looks."""
        far_end, self._far_end, self.is_lost = self._far_end, None, True
        if far_end is not None:
            self.on_end()
            self._clock.after(seen_after_ms + self._latency_ms(), far_end.lost)
        self._fail()

    def _settle(self, waiting: asyncio.Future[Answer], answer: Answer) -> None:
        """On the client's loop: one that stands still sees it later."""
        self._loop.call_soon(_set, waiting, answer)

    def _broken(self) -> None:
        """The gateway has ended the connection; the client sees that after a while."""
        self._far_end = None
        self.on_end()
        self._clock.after(self._latency_ms(), lambda: self._loop.call_soon(self._ended))

    def _ended(self) -> None:
        self.is_lost = True
        self._fail()

    def _fail(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_exception(ConnectionLostError("the connection broke"))
                future.exception()  # whoever waited may be gone

    def _latency_ms(self) -> float:
        return self._weather.latency_ms(self._clock)


def _set(waiting: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)
