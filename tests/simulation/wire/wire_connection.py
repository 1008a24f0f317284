"""A client's connections to gateways; messages have a latency and end with the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_process import GatewayConnection, SimulatedGateway
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class ConnectionLostError(Exception):
    """The connection broke or could not be opened; requests may have taken effect."""


class Answer(NamedTuple):
    """A response, and the time at which the gateway created it (milliseconds since the epoch, the true time)."""

    message: Any
    made_ms: int


class Connection:
    """A connection to the port of one broker at one gateway, opened by the first request. `host` names the client."""

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
        #: Called at its end, whichever side ends it, before the client can detect that.
        self.on_end: Callable[[], None] = lambda: None

    async def ask(self, message: Any, version: int, timeout_s: float = 60.0) -> Answer:
        """Return the response. Raises ConnectionLostError."""
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
        """Close the client's end; the gateway detects that a while after the last message, or at its next check."""
        far_end, self._far_end, self.is_lost = self._far_end, None, True
        if far_end is not None:
            self.on_end()
            self._clock.after(seen_after_ms + self._latency_ms(), far_end.lost)
        self._fail()

    def _settle(self, waiting: asyncio.Future[Answer], answer: Answer) -> None:
        """Complete a request on the client's loop; a suspended client receives the response later."""
        self._loop.call_soon(_set, waiting, answer)

    def _broken(self) -> None:
        """Handle the gateway's end of the connection, which the client detects after a while."""
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
                future.exception()  # the waiting task may have ended

    def _latency_ms(self) -> float:
        return self._weather.latency_ms(self._clock)


def _set(waiting: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)
