"""Brokers that fall silent, one at a time. The controller moves their leaderships to replicas, if there are any."""

from __future__ import annotations

from collections.abc import Collection

from tests.simulation.world import GROUP_REQUESTS, JOB_TOPICS, PARTITION_REQUESTS, World

#: The mean time between two silences.
_EVERY_MS = 240_000
#: The duration of a silence: mostly shorter than a request timeout, sometimes longer than a session of the broker.
_SILENCES_MS = (1_500, 6_000, 15_000, 45_000)
#: The time after which the controller considers a broker lost (broker.session.timeout.ms).
SESSION_MS = 9_000


class BrokerFaults:
    """The faults of the brokers of a run. In some runs the topics are replicated.

    In most runs one broker leads nothing of the job's topics; only its silence does not affect the job.
    """

    def __init__(self, world: World) -> None:
        self._world, self._clock, self._kafka = world, world.clock, world.kafka
        self._random = world.random("broker faults")
        self._is_replicated = self._random.random() < 0.6
        spared = self._random.choice(self._kafka.brokers) if self._random.random() < 0.8 else -1
        self._for_job = [node_id for node_id in self._kafka.brokers if node_id != spared]

    def start(self) -> None:
        """Begin, if the run has this fault."""
        if "silent_leader" in self._world.faults:
            self._give_away(*(set(self._kafka.brokers) - set(self._for_job)), names=JOB_TOPICS)
            self._plan()

    def silence(self, node_id: int, ms: float, is_cut_off: bool) -> None:
        """Make a broker silent for a time."""
        what = "is cut off" if is_cut_off else "is paused"
        self._world.trace.add("brokers", f"broker {node_id} {what} for {ms / 1000:g} s")
        self._kafka.silence.begin(node_id, is_cut_off)
        if self._is_replicated and ms > SESSION_MS:
            self._clock.after(SESSION_MS, lambda: self._give_away(node_id))
        self._clock.after(ms, lambda: self._end(node_id))

    def _plan(self) -> None:
        self._clock.after(self._random.expovariate(1 / _EVERY_MS), self._act)

    def _act(self) -> None:
        """Silence any broker now, or one that has just appended a request that the job has not read."""
        if self._random.random() < 0.5:
            self._kafka.listeners.append(self._appended)
        else:
            self._silence_one(self._random.choice(self._kafka.brokers))

    def _appended(self, topic: str, partition: int) -> None:
        if topic in (GROUP_REQUESTS, PARTITION_REQUESTS):
            self._kafka.listeners.remove(self._appended)
            self._silence_one(self._kafka.topic(topic).partitions[partition].leader)

    def _silence_one(self, node_id: int) -> None:
        if not self._world.has("silent_leader"):
            return
        ms = min(self._random.choice(_SILENCES_MS), self._world.calm_ms - self._clock.now_ms)
        if node_id >= 0 and not self._kafka.silence:
            self.silence(node_id, ms, self._random.random() < 0.5)
        self._plan()

    def _give_away(self, *lost: int, names: Collection[str] = ()) -> None:
        """Move the leaderships of lost brokers to others, for all topics or for these."""
        for name in names or tuple(self._kafka.topics):
            others = [
                other for other in (self._for_job if name in JOB_TOPICS else self._kafka.brokers) if other not in lost
            ]
            for partition, log in enumerate(self._kafka.topics[name].partitions):
                if log.leader in lost:
                    self._kafka.move_leader(name, partition, self._random.choice(others))

    def _end(self, node_id: int) -> None:
        self._world.trace.add("brokers", f"broker {node_id} answers again")
        self._kafka.end_silence(node_id)
