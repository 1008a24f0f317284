"""Members of a run that use Kafka's protocol: share consumers that join, leave and join again."""

from __future__ import annotations

from tests.simulation.wire.python_client import PythonClient
from tests.simulation.wire.wire_client import ClientProcess, ClientSide, ShareClient
from tests.simulation.wire.wire_habits import Habit, habit_of
from tests.simulation.world import World

#: The mean lifetime of a static member's process.
_RESTART_MS = 60_000
#: A member of the calm end of a run, which accepts all records.
GOOD = Habit("good", rests_ms=(0, 200), explicit=0.0)


class WireMember:
    """A member with the interface of `RowMember`: each `start` is another process with its own member id.

    It is a `ShareClient`, or the project's own client with `is_python`.
    """

    def __init__(
        self,
        world: World,
        side: ClientSide,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        habit: Habit | None = None,
        is_python: bool = False,
    ) -> None:
        self._is_python = is_python
        self._world, self._side, self.name, self.group_id, self.topics = world, side, name, group_id, topics
        self._random = world.random(f"member {name}")
        self._habit = habit or habit_of(
            self._random,
            slow="slow_members" in world.faults,
            ends=False,
            moves="gateway_moves" in world.faults,
        )
        self._is_static = world.has("static_members") and world.random("names at gateways").random() < 0.6
        self._lives = 0
        self._client: ClientProcess | None = None

    @property
    def alive(self) -> bool:
        """Return whether its process runs."""
        return self._client is not None

    def start(self) -> None:
        """Start a process, which joins."""
        self._lives += 1
        member_id = f"{self.name}.{self._lives}"
        client: type[ClientProcess] = PythonClient if self._is_python else ShareClient
        self._client = client(
            member_id, self.group_id, self.topics, self._habit, self._side, self._random, self._ended,
            client_id=self.name if self._is_static else "",
        )  # fmt: skip
        self._client.start()
        if self._is_static:
            self._world.clock.after(self._random.expovariate(1 / _RESTART_MS), self._restart)

    def _restart(self) -> None:
        """Kill a static member's process at any point; the next one continues after a while."""
        if self._client is not None and self._world.has("static_members"):
            self._client.die()
            self._world.clock.after(self._random.choice((0, 1_000, 30_000, 120_000)), self._start_again)

    def _start_again(self) -> None:
        if self._client is None and self._world.has("static_members"):
            self.start()

    def die(self) -> None:
        """Kill the process."""
        if self._client is not None:
            self._client.die()

    def pause(self, ms: float) -> None:
        """Suspend its process for a time."""
        if self._client is not None:
            self._client.pause(ms)

    def leave(self) -> None:
        """End its sessions and leave the group, which takes a while."""
        if self._client is not None:
            self._client.leave()

    def _ended(self, client: ClientProcess) -> None:
        if client is self._client:
            self._client = None
