"""B18: brokers of a replicated cluster fail and come back: the longest time without a record, and produce to poll.

Three brokers, three replicas, `min.insync.replicas` of 2, 300 records a second to six partitions, five librdkafka
members at two gateways. The same on Kafka's own share groups, in a cluster of its own.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ElectionType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.kafka_groups import begin_at_earliest
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster

NAME = "B18"
_TOPIC, _GROUP, _PARTITIONS, _MEMBERS, _RATE = "steady", "steady", 6, 5, 300
_BROKERS, _POLL_S = 3, 0.2
#: How long a broker is away or paused, and how long is measured after it is back.
_AWAY_S, _PAUSE_S, _SETTLE_S = 10.0, 15.0, 15.0
_QUIET_S = 20.0
_END_S = 180.0
_PROPERTIES = {"broker.session.timeout.ms": "6000", "unclean.leader.election.enable": "false"}
#: By what is measured: the longest gap that is aimed at, beyond that of Kafka's own share groups, in seconds.
_REACHES = {
    "broker killed": 3.0,
    "broker stopped": 1.0,
    "broker paused, its partitions": 3.0,
    "broker paused, other partitions": 2.0,
    "rolling restart of all brokers": 3.0,
}
_MEDIAN_REACH = 2.0


class Gaps(NamedTuple):
    """What was measured from the begin of a fault on: seconds, by partition and by record."""

    longest: dict[int, float]
    latencies: list[float]


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Our gateways, then Kafka's own share groups."""
    kafka.stop()  # the clusters have brokers of their own
    turns = 1 if quick else 2
    ours = _measure(directory / "ours", turns, own=False)
    its = _measure(directory / "kafka", turns, own=True)
    figures = []
    for what, reach_s in _REACHES.items():
        mine, theirs = max(ours.gaps[what]), max(its.gaps[what])
        figures.append(
            Figure(NAME, f"{what}: longest time without a record", mine, "s", theirs, mine / theirs,
                   f"<= baseline + {reach_s:g} s", mine <= theirs + reach_s)
        )  # fmt: skip
    for side, found in (("gateway", ours), ("Kafka", its)):
        ratio = found.median_s / found.quiet_s
        is_ours = side == "gateway"
        figures.append(
            Figure(NAME, f"produce to poll while brokers fail and return, median, {side}", found.median_s, "s",
                   found.quiet_s, ratio, f"<= {_MEDIAN_REACH:g}" if is_ours else "",
                   ratio <= _MEDIAN_REACH if is_ours else None)
        )  # fmt: skip
    return figures, {"gateway": ours._asdict(), "kafka": its._asdict()}


class Side(NamedTuple):
    """The longest gaps of each turn by fault; the medians of produce to poll before the faults, and from then on."""

    gaps: dict[str, list[float]]
    quiet_s: float
    median_s: float
    medians: dict[str, list[float]]
    produced: int
    missing: int


def _measure(directory: Path, turns: int, own: bool) -> Side:
    directory.mkdir()
    features = None if own else {"share.version": 0}
    with EmbeddedKafkaCluster(
        _BROKERS, controllers=3, replication=3, min_insync_replicas=2, properties=_PROPERTIES, features=features,
        heap="-Xmx512m",
    ) as cluster:  # fmt: skip
        cluster.create_topic(_TOPIC, _PARTITIONS)
        with _served(cluster, directory, own) as servers, Load(cluster.bootstrap_servers, servers) as load:
            load.await_first()
            load.begin()
            time.sleep(_QUIET_S)
            quiet = load.measured()
            found = _faults(cluster, load, turns)
            missing = load.finish()
            medians = {what: [median(turn.latencies) for turn in of_fault] for what, of_fault in found.items()}
            everything = [latency for of_fault in found.values() for turn in of_fault for latency in turn.latencies]
            gaps = {what: [max(turn.longest.values()) for turn in of_fault] for what, of_fault in found.items()}
            return Side(gaps, median(quiet.latencies), median(everything), medians, load.produced, missing)


@contextlib.contextmanager
def _served(cluster: EmbeddedKafkaCluster, directory: Path, own: bool) -> Iterator[list[str]]:
    """Where members connect, in turns."""
    if own:
        begin_at_earliest(cluster.bootstrap_servers, [_GROUP])
        yield [cluster.bootstrap_servers]
        return
    config = write_config(directory, cluster.bootstrap_servers, groups=[_GROUP])
    one, two = (GatewayProcess(config, directory / f"{name}.log") for name in ("one", "two"))
    with Engine(config), one, two:
        addresses = [one.bootstrap_servers, two.bootstrap_servers]
        yield [",".join(addresses), ",".join(reversed(addresses))]


def _faults(cluster: EmbeddedKafkaCluster, load: Load, turns: int) -> dict[str, list[Gaps]]:
    """Each fault in turns, of brokers 2 and 3, then a restart of all."""
    found: dict[str, list[Gaps]] = {what: [] for what in _REACHES}

    def during(what: str, fault: Callable[[], None]) -> Gaps:
        _elect_preferred_leaders(cluster)
        time.sleep(_SETTLE_S)  # the election is over for the members, too
        load.begin()
        fault()
        _await_in_sync(cluster)
        time.sleep(_SETTLE_S)
        gaps = load.measured()
        longest = ", ".join(f"{gap:.1f}" for _, gap in sorted(gaps.longest.items()))
        print(f"{what}: {longest} s; produce to poll {median(gaps.latencies):.2f} s", file=sys.stderr, flush=True)
        return gaps

    def away(broker: EmbeddedKafka, end: Callable[[], None]) -> None:
        end()
        time.sleep(_AWAY_S)
        broker.start()

    def paused(broker: EmbeddedKafka) -> None:
        broker.pause()
        time.sleep(_PAUSE_S)
        broker.resume()

    def rolling() -> None:
        for broker in cluster.brokers:
            broker.shut_down()
            broker.start()
            _await_in_sync(cluster)

    for turn in range(turns):
        broker = cluster.brokers[1 + turn % 2]
        found["broker killed"].append(during("killed", lambda of=broker: away(of, of.kill)))
        found["broker stopped"].append(during("stopped", lambda of=broker: away(of, of.shut_down)))
        led = set(range(turn % 2 + 1, _PARTITIONS, _BROKERS))
        gaps = during("paused", lambda of=broker: paused(of))
        for what, is_of in (("broker paused, its partitions", True), ("broker paused, other partitions", False)):
            of_it = {partition: gap for partition, gap in gaps.longest.items() if (partition in led) == is_of}
            found[what].append(Gaps(of_it, gaps.latencies))
    found["rolling restart of all brokers"].append(during("restarted", rolling))
    return found


def _partitions(cluster: EmbeddedKafkaCluster) -> dict[int, tuple[int, int]]:
    """(leader, number of replicas in sync) of each partition of the topic; none while the cluster does not answer."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    try:
        partitions = admin.list_topics(_TOPIC, timeout=5).topics[_TOPIC].partitions
    except KafkaException:
        return {}
    return {number: (partition.leader, len(partition.isrs)) for number, partition in partitions.items()}


def _await_in_sync(cluster: EmbeddedKafkaCluster) -> None:
    while {replicas for _, replicas in _partitions(cluster).values()} != {_BROKERS}:
        time.sleep(_POLL_S)


def _elect_preferred_leaders(cluster: EmbeddedKafkaCluster) -> None:
    """Have each broker lead its share of all topics again."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.elect_leaders(ElectionType.PREFERRED).result(60)
    while any(leader != 1 + number % _BROKERS for number, (leader, _) in _partitions(cluster).items()):
        time.sleep(_POLL_S)


class Load:
    """A producer and the members, inside the `with` block; a record's value is the time it was produced at."""

    def __init__(self, brokers: str, servers: list[str]) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._stop_producing, self._stop = threading.Event(), threading.Event()
        self._last: dict[int, float] = {}
        self._longest = dict.fromkeys(range(_PARTITIONS), 0.0)
        self._latencies: list[float] = []
        self._seen: set[tuple[int, int]] = set()
        self.produced = 0
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self._members = [
            threading.Thread(target=self._consume, args=(servers[number % len(servers)],), daemon=True)
            for number in range(_MEMBERS)
        ]

    def __enter__(self) -> Load:
        for thread in (self._producing, *self._members):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_producing.set()
        self._stop.set()
        for thread in (self._producing, *self._members):
            thread.join(_END_S)

    def await_first(self) -> None:
        """Wait until each partition has delivered something."""
        while len(self._last) < _PARTITIONS:
            time.sleep(_POLL_S)

    def begin(self) -> None:
        """Measure from now on."""
        with self._lock:
            self._longest = dict.fromkeys(range(_PARTITIONS), 0.0)
            self._latencies = []

    def measured(self) -> Gaps:
        """What was measured since `begin`."""
        now = time.time()
        with self._lock:
            longest = {number: max(gap, now - self._last[number]) for number, gap in self._longest.items()}
            return Gaps(longest, self._latencies)

    def finish(self) -> int:
        """Stop producing; the number of records that have not come after a while."""
        self._stop_producing.set()
        self._producing.join(_END_S)
        end = time.time() + _END_S
        while len(self._seen) < self.produced and time.time() < end:
            time.sleep(_POLL_S)
        return self.produced - len(self._seen)

    def _produce(self) -> None:
        settings = {"enable.idempotence": True, "message.timeout.ms": 120_000, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._brokers, **settings})

        def appended(error: object, _: object) -> None:
            self.produced += error is None

        begin, sent = time.monotonic(), 0
        while not self._stop_producing.wait(0.01):  # the pace of the load
            due = int((time.monotonic() - begin) * _RATE)
            for number in range(sent, due):
                producer.produce(_TOPIC, b"%.6f" % time.time(), partition=number % _PARTITIONS, on_delivery=appended)
            sent = due
            producer.poll(0)
        producer.flush(_END_S)

    def _consume(self, servers: str) -> None:
        consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": _GROUP, "log_level": 0})
        consumer.subscribe([_TOPIC])
        while not self._stop.is_set():
            messages = [message for message in consumer.poll(timeout=1.0) if message.error() is None]
            now = time.time()
            with self._lock:
                for message in messages:
                    partition = message.partition()
                    gap = now - self._last.get(partition, now)
                    self._longest[partition] = max(self._longest[partition], gap)
                    self._last[partition] = now
                    self._latencies.append(now - float(message.value()))
                    self._seen.add((partition, message.offset()))
        consumer.close()
