"""Gateways and share consumers over the minimal job, and what the consumers saw."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from random import Random

from sharegroup.config.loading import parse_config
from sharegroup.types import AcknowledgeType
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_process import SimulatedGateway, Surroundings
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.wire.wire_client import ClientSide, ShareClient
from tests.simulation.wire.wire_habits import HABITS, Habit
from tests.simulation.wire.wire_observer import Acknowledgement, Delivery, Place
from tests.unit.simulation.minimal_job import MinimalJob

LOCK_MS = 15_000
FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Witness:
    """An observer that remembers; `violations` are records that a gateway delivered after they were finished."""

    def __init__(self, clock: Scheduler, trace: Trace) -> None:
        self._clock, self._trace = clock, trace
        self.deliveries: list[Delivery] = []
        self.answers: list[tuple[Acknowledgement, int | None]] = []
        self.finished: dict[tuple[Place, int], int] = {}
        self._finished_ms: dict[int, int] = {}
        self.told: list[tuple[object, ...]] = []
        self.violations: list[str] = []

    def delivered(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        ranges = ", ".join(f"{first}..{last} ({count})" for first, last, count in delivery.acquired)
        left_ms = delivery.lock_end_ms - self._clock.now_ms
        self._trace.add(delivery.member_id, f"gets {ranges} of partition {delivery.place.partition}, {left_ms} ms left")
        for offset in delivery.records:
            number = self.finished.get((delivery.place, offset))
            if number is not None and self._finished_ms[number] < delivery.made_ms:  # who stands still sees it later
                self._violate(f"{delivery.member_id} gets {offset}, which acknowledgement {number} has finished")

    def acknowledge_sent(self, acknowledgement: Acknowledgement) -> None:
        batches = ", ".join(f"{first}..{last} {types}" for first, last, types in acknowledgement.batches)
        self._trace.add(acknowledgement.member_id, f"sends acknowledgement {acknowledgement.number}: {batches}")

    def acknowledge_answered(self, acknowledgement: Acknowledgement, error_code: int | None, lock_ms: int) -> None:
        self.answers.append((acknowledgement, error_code))
        self._trace.add(acknowledgement.member_id, f"acknowledgement {acknowledgement.number} is answered {error_code}")
        if error_code != 0:
            return
        self._finished_ms[acknowledgement.number] = self._clock.now_ms
        for first, last, types in acknowledgement.batches:
            for offset in range(first, last + 1):
                if (types[0] if len(types) == 1 else types[offset - first]) in FINAL:
                    self.finished.setdefault((acknowledgement.place, offset), acknowledgement.number)

    def let_go(self, member_id: str, places: Sequence[Place], why: str) -> None:
        self.told.append(("let_go", member_id, why))

    def heartbeat_sent(self, member_id: str, group_id: str, topics: Sequence[str]) -> None:
        self.told.append(("heartbeat", member_id))

    def heartbeat_answered(self, member_id: str, group_id: str, sent_ms: int) -> None:
        self.told.append(("member", member_id))

    def left(self, member_id: str, group_id: str) -> None:
        self.told.append(("left", member_id))

    def _violate(self, text: str) -> None:
        self.violations.append(text)
        self._trace.add("VIOLATION", text)


class GatewayWorld:
    """One group's members and gateways; `produce_s`: records of the topic `orders` come about so often, ten at a
    time. `has_names`: the group takes client ids for names of static members."""

    def __init__(
        self,
        seed: int,
        gateways: int = 2,
        partitions: int = 1,
        weather: Weather | None = None,
        group: Mapping[str, object] | None = None,
        produce_s: float = 5.0,
        gateway: Mapping[str, object] | None = None,
        has_names: bool = False,
    ) -> None:
        self.clock = Scheduler(seed)
        self.trace = Trace(self.clock)
        self.kafka = SimulatedKafka(self.clock, self.trace, brokers=2)
        values = {
            "group.share.record.lock.duration.ms": LOCK_MS,
            "group.share.heartbeat.interval.ms": 15_000,
            "group.share.session.timeout.ms": 60_000,
        }
        config = parse_config(
            {
                "group": values | dict(group or {}),
                "groups": {"g": {"share.auto.offset.reset": "earliest", "share.client.id.as.instance.id": has_names}},
                # the minimal job knows no leases
                "gateway": {"gateway.reservations.enable": False, **(gateway or {})},
            },
            "the test's configuration",
        )
        self.job = MinimalJob(self.clock, self.trace, self.kafka, config)
        self.kafka.create_topic("orders", partitions)
        self.weather = weather or Weather(slow_chance=0)
        self.around = Surroundings(self.clock, self.trace, self.kafka, config, self.job, self.weather)
        self.gateways: list[SimulatedGateway] = []
        for _ in range(gateways):
            self.gateway()
        self.witness = Witness(self.clock, self.trace)
        self.side = ClientSide(
            self.clock, self.trace, self.kafka, self.weather, self.gateways, self.witness, itertools.count(1)
        )
        self.random = Random(f"{seed}/members")
        self.clients: list[ShareClient] = []
        self._produce_s, self._producing = produce_s, Random(f"{seed}/records")
        if produce_s:
            self._produce_later()

    def gateway(self, skew_ms: int = 0) -> SimulatedGateway:
        """Start a gateway."""
        found = SimulatedGateway(f"gateway-{len(self.gateways)}", self.around, skew_ms)
        self.gateways.append(found)
        found.start()
        return found

    def client(self, habit: Habit | str, client_id: str = "") -> ShareClient:
        """Start a member, which has a name where the group `has_names`."""
        found = HABITS[habit] if isinstance(habit, str) else habit
        client = ShareClient(
            f"m{len(self.clients)}", "g", ["orders"], found, self.side, Random(self.random.random()),
            client_id=client_id,
        )  # fmt: skip
        self.clients.append(client)
        client.start()
        return client

    def produce(self, records: int, partition: int = 0) -> None:
        self.kafka.append("orders", partition, [(None, b"value")] * records)

    def run(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_ms + seconds * 1000)

    def problems(self) -> list[object]:
        """Errors that nobody took: bugs."""
        return [problem for one in [*self.gateways, *(c.loop for c in self.clients)] for problem in one.problems]

    def _produce_later(self) -> None:
        self.clock.after(self._producing.expovariate(1 / self._produce_s) * 1000, self._produce)

    def _produce(self) -> None:
        partitions = len(self.kafka.topic("orders").partitions)
        self.produce(10, self._producing.randrange(partitions))
        self._produce_later()
