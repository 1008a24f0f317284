"""Several real Kafka brokers, for what one alone does not show: leaders on different brokers.

    with EmbeddedKafkaCluster(brokers=2) as kafka:
        kafka.create_topic("orders", partitions=4)     # broker 1 leads partitions 0 and 2, broker 2 leads 1 and 3

The first node is controller and broker, the others are brokers. Nothing is replicated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sharegroup.testkit.embedded_kafka import EmbeddedKafka

if TYPE_CHECKING:
    from typing import Self


class EmbeddedKafkaCluster:
    """Brokers 1, 2, ...; `version`, `properties`, `features` and `heap` as in EmbeddedKafka."""

    def __init__(
        self,
        brokers: int = 2,
        *,
        version: str = "4.3",
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        heap: str = "-Xmx384m",
    ) -> None:
        first = EmbeddedKafka(version=version, properties=properties, features=features, heap=heap)
        others = [
            EmbeddedKafka(
                version=version, properties=properties, features=features, heap=heap, node_id=number, join=first
            )
            for number in range(2, brokers + 1)
        ]
        self.brokers = [first, *others]
        self._running = contextlib.ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, with commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Creates a topic whose partitions the brokers lead in turn; returns when each has its leader."""
        leaders = {number: [self.brokers[number % len(self.brokers)].node_id] for number in range(partitions)}
        topic = {"assignments": leaders, "configs": dict(config or {})}
        # The last one's client is the newest, so it has heard of all brokers.
        self.brokers[-1].admin_client().create_topics({name: topic}, wait_for_metadata=True)

    def start(self) -> Self:
        """Starts the brokers. Raises EmbeddedKafkaError and JarsError; none is left running then."""
        with contextlib.ExitStack() as running:
            for broker in self.brokers:  # the controller first
                running.enter_context(broker)
            self._running = running.pop_all()
        return self

    def stop(self) -> None:
        """Stops the brokers, the controller last. Raises EmbeddedKafkaError for one that had ended by itself."""
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)
