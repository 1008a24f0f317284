"""Several real Kafka brokers, for tests of leaders on different brokers and of failing brokers.

    with EmbeddedKafkaCluster(brokers=2) as kafka:
        kafka.create_topic("orders", partitions=4)     # broker 1 leads partitions 0 and 2, broker 2 leads 1 and 3

    with EmbeddedKafkaCluster(brokers=3, controllers=3, replication=3, min_insync_replicas=2) as kafka:
        kafka.create_topic("orders", partitions=6)     # three replicas of each partition
        kafka.brokers[1].kill()
        kafka.brokers[1].start()                       # with its data, or without after `erase()`

The first `controllers` nodes are controllers and brokers, the others only brokers. A broker's data remains until the
cluster is stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING

from sharegroup.testing.embedded_kafka import EmbeddedKafka, Quorum, create_topic, new_cluster_id
from sharegroup.testing.ports import HOST, free_port

if TYPE_CHECKING:
    from typing import Self


class EmbeddedKafkaCluster:
    """Brokers 1, 2, ...; `version`, `properties`, `features` and `heap` as in EmbeddedKafka.

    Args:
        brokers: the number of brokers.
        controllers: how many of them are controllers as well. A cluster with three continues without any one of them.
        replication: the number of replicas of each topic that does not set it, including Kafka's internal topics.
        min_insync_replicas: `min.insync.replicas` of these topics.
    """

    def __init__(
        self,
        brokers: int = 2,
        *,
        controllers: int = 1,
        replication: int = 1,
        min_insync_replicas: int = 1,
        version: str = "4.3",
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        heap: str = "-Xmx384m",
    ) -> None:
        addresses = {number: f"{HOST}:{free_port()}" for number in range(1, controllers + 1)}
        quorum = Quorum(new_cluster_id(), addresses) if controllers > 1 else None
        settings = {**_replicated(replication, min_insync_replicas), **(properties or {})}
        self._replication = replication
        self._controllers = controllers
        self.brokers: list[EmbeddedKafka] = []
        for number in range(1, brokers + 1):
            first = self.brokers[0] if self.brokers and quorum is None else None
            self.brokers.append(
                EmbeddedKafka(
                    version=version, properties=settings, features=features, heap=heap, node_id=number, join=first,
                    quorum=quorum,
                )
            )  # fmt: skip
        self._running = contextlib.ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic whose partitions are led by the brokers in turn, and wait until each leader responds."""
        nodes = [broker.node_id for broker in self.brokers]
        replicas = {
            number: [nodes[(number + place) % len(nodes)] for place in range(self._replication)]
            for number in range(partitions)
        }
        topic = {"assignments": replicas, "configs": dict(config or {})}
        running = [broker for broker in self.brokers if broker.is_running]
        create_topic(running[-1].admin_client(len(running)), name, partitions, topic)

    def start(self) -> Self:
        """Start the brokers. Raises EmbeddedKafkaError and JarsError, after stopping those that had started."""
        with contextlib.ExitStack() as running:
            for broker in self.brokers:
                running.push(broker)
            if self._controllers > 1:
                running.callback(self._kill_all)  # before they stop in turn, when the last ones would need a majority
                with ThreadPoolExecutor(self._controllers) as pool:  # because the first one waits for a majority
                    list(pool.map(EmbeddedKafka.start, self.brokers[: self._controllers]))
            for broker in self.brokers:
                if not broker.is_running:  # the controller first
                    broker.start()
            self._running = running.pop_all()
        return self

    def _kill_all(self) -> None:
        for broker in self.brokers:
            if broker.is_running:
                broker.kill()

    def stop(self) -> None:
        """Stop the brokers, the controller last. Raises EmbeddedKafkaError if one had exited unexpectedly."""
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)


def _replicated(replication: int, min_insync_replicas: int) -> dict[str, str]:
    factors = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    minima = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
    return {
        **{f"{what}.replication.factor": str(replication) for what in factors},
        **dict.fromkeys(minima, str(min_insync_replicas)),
    }
