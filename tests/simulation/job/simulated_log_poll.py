"""The job's polls of log offsets: the real client over simulated connections, in virtual time.

The job's code waits for each poll. Meanwhile everything else continues, and the job may be killed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.connections.log_offsets import METADATA_TIMEOUT_S, LogOffsetsClient
from tests.simulation.brokers.broker_answers import BrokerAnswers
from tests.simulation.gateway.simulated_connections import SimulatedConnections
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class _JobLoop:
    """`LoopThread` without its thread. `check` raises for a dead process."""

    def __init__(self, clock: Scheduler, is_alive: Callable[[], bool], check: Callable[[], None], end_ms: int) -> None:
        self._loop = VirtualLoop(clock)
        self._is_alive, self._check, self._end_ms = is_alive, check, end_ms

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        try:
            return self._loop.run_until_done(work, self._is_alive, self._end_ms)
        finally:
            self._check()

    def close(self, close: Callable[[], None]) -> None:
        """Stop running coroutines."""
        self._loop.kill()


class SimulatedLogPoll(LogPoll):
    """The poll of one start of a query; see `_JobLoop`."""

    def __init__(
        self,
        clock: Scheduler,
        answers: BrokerAnswers,
        is_alive: Callable[[], bool],
        check: Callable[[], None],
        end_ms: int,
    ) -> None:
        brokers = SimulatedConnections(answers, METADATA_TIMEOUT_S)
        super().__init__(brokers.settings)
        self._loop = _JobLoop(clock, is_alive, check, end_ms)  # type: ignore[assignment]
        self._client = LogOffsetsClient(brokers.settings, brokers)
