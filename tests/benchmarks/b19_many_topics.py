"""B19: topics that come and go where 1,000 are known, through the gateway and on Kafka's own share groups.

One member reads 1,000 topics. The figures are the slowest record of another group while topics of the first one are
deleted and created, the time in which a member that subscribes to 100 new topics has a record of each, and how long the
job asks for the log offsets of all topics for the first time.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition

from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure
from tests.benchmarks.kafka_groups import begin_at_earliest

NAME = "B19"
_NEIGHBOUR, _SIDES = "neighbour", ("gateway", "kafka")
_NEIGHBOUR_REACH_S, _NEW_REACH_S, _LOOK_REACH_S = 0.3, 6.0, 2.0
_RATE, _QUIET_S, _CHANGE_S, _TIMEOUT_S = 20, 20.0, 8.0, 300.0
_POLL_S, _IDLE_S = 0.2, 0.02


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Our gateway, then Kafka's own share groups of the same broker, on topics of the same kind."""
    known, new, changes = (50, 10, 1) if quick else (1_000, 100, 5)
    groups = {side: [f"{what}-{side}" for what in ("known", "new", "neighbour")] for side in _SIDES}
    begin_at_earliest(kafka.bootstrap_servers, groups["kafka"])
    config = write_config(directory / "engine", kafka.bootstrap_servers, groups=groups["gateway"])
    found = {}
    with Engine(config), GatewayProcess(config, directory / "gateway.log") as gateway:
        for side, servers in zip(_SIDES, (gateway.bootstrap_servers, kafka.bootstrap_servers), strict=True):
            found[side] = _measure(kafka.bootstrap_servers, servers, side, known, new, changes)
            print(f"{side}: {found[side]}", file=sys.stderr, flush=True)
        found["gateway"]["first look"] = _first_look(kafka)
    return _figures(found["gateway"], found["kafka"], known, new), {**found}


def _figures(ours: dict[str, float], its: dict[str, float], known: int, new: int) -> list[Figure]:
    def figure(what: str, key: str, reach: str, reached: bool | None) -> Figure:
        baseline = its.get(key)
        ratio = None if baseline is None else ours[key] / baseline
        return Figure(NAME, what, ours[key], "s", baseline, ratio, reach, reached)

    changed, quiet = ours["neighbour, changes"], ours["neighbour, quiet"]
    return [
        figure("slowest record of a neighbour, nothing changes", "neighbour, quiet", "", None),
        figure(f"... while topics of another group come and go, {known:,} known", "neighbour, changes",
               f"<= without + {_NEIGHBOUR_REACH_S:g} s", changed <= quiet + _NEIGHBOUR_REACH_S),
        figure(f"... while a member subscribes to {new} new topics", "neighbour, new topics", "", None),
        figure(f"{new} new topics subscribed at once: a record of each", "new topics", f"<= {_NEW_REACH_S:g} s",
               ours["new topics"] <= _NEW_REACH_S),
        figure(f"first log offsets of {known:,} topics", "first look", f"<= {_LOOK_REACH_S:g} s",
               ours["first look"] <= _LOOK_REACH_S),
    ]  # fmt: skip


def _measure(brokers: str, servers: str, side: str, known: int, new: int, changes: int) -> dict[str, float]:
    topics = [f"{side}-known-{number:04}" for number in range(known)]
    neighbour = f"{_NEIGHBOUR}-{side}"
    _create(brokers, [*topics, neighbour])
    found: dict[str, float] = {}
    with Neighbour(brokers, servers, neighbour) as records, Reader(servers, f"known-{side}") as reader:
        reader.await_all(topics)
        _slowest(records, _QUIET_S)  # excludes the load of the many topics from the quiet period
        found["neighbour, quiet"] = _slowest(records, _QUIET_S)
        slowest = []
        for number in range(changes):
            began = time.time()
            _delete(brokers, topics.pop())
            slowest.append(_slowest(records, _CHANGE_S, began))
            began, made = time.time(), f"{side}-made-{number}"
            _create(brokers, [made])
            topics.append(made)
            reader.await_all([made], topics)
            slowest.append(_slowest(records, _CHANGE_S, began))
        found["neighbour, changes"] = max(slowest)
        subscribed = [f"{side}-new-{number:03}" for number in range(new)]
        _create(brokers, subscribed)
        time.sleep(_CHANGE_S)  # what the creation does to others is over
        began = time.time()
        with Reader(servers, f"new-{side}") as other:
            other.await_all(subscribed)
            found["new topics"] = time.time() - began
        found["neighbour, new topics"] = _slowest(records, _CHANGE_S, began)
    return found


def _slowest(records: Neighbour, seconds: float, since: float | None = None) -> float:
    """The slowest record that was produced since then, after so many seconds more."""
    since = time.time() if since is None else since
    time.sleep(seconds)
    return records.slowest_since(since)


def _create(brokers: str, topics: Sequence[str]) -> None:
    """With a record in each."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": brokers})
    for topic in topics:
        producer.produce(topic, b"%.6f" % time.time(), partition=0)
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError("the topics are not filled")


def _delete(brokers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})  # named: its requests fail when it is collected
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)


def _first_look(kafka: EmbeddedKafka) -> float:
    """Seconds until a new client has the log end offsets of all topics."""
    topics = [topic for topic in kafka.topics() if not topic.startswith("__")]
    logs = LogPoll({"bootstrap_servers": [kafka.bootstrap_servers], "client_id": uuid.uuid4().hex})
    began = time.monotonic()
    ends = logs.ends([TopicPartition(topic, 0) for topic in topics])
    took = time.monotonic() - began
    logs.close()
    if len(ends) != len(topics):
        raise AssertionError(f"{len(ends)} of {len(topics)} topics were answered")
    return took


class Reader:
    """A member that polls in the background, inside the `with` block."""

    def __init__(self, servers: str, group: str) -> None:
        self._consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
        self._wanted: list[str] | None = None
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def await_all(self, topics: Sequence[str], subscription: Sequence[str] | None = None) -> None:
        """Subscribe, and wait until a record of each of the topics has come. Raises TimeoutError."""
        self._wanted = list(subscription or topics)
        end = time.monotonic() + _TIMEOUT_S
        while not self._seen.issuperset(topics):
            if time.monotonic() > end:
                raise TimeoutError(f"no records of {sorted(set(topics) - self._seen)[:10]}")
            time.sleep(_IDLE_S)

    def received(self, topic: str, value: bytes) -> None:
        """A record came."""
        self._seen.add(topic)

    def _run(self) -> None:
        is_subscribed = False
        while not self._stop.is_set():
            if (wanted := self._wanted) is not None:
                self._wanted, is_subscribed = None, True
                self._consumer.subscribe(wanted)
            if not is_subscribed:
                self._stop.wait(_IDLE_S)
                continue
            for message in self._consumer.poll(timeout=_POLL_S):
                if message.error() is None:
                    self.received(message.topic(), message.value())
        self._consumer.close()

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_TIMEOUT_S)


class Neighbour(Reader):
    """Produces at a steady rate to a topic of its own, and reads it."""

    def __init__(self, brokers: str, servers: str, topic: str) -> None:
        super().__init__(servers, topic)
        self._brokers, self._topic = brokers, topic
        self._arrivals: list[tuple[float, float]] = []
        self._producing = threading.Thread(target=self._produce, daemon=True)

    def slowest_since(self, since: float) -> float:
        """Seconds from produce to poll of the slowest record produced since then; one that has not come counts, too."""
        arrivals = list(self._arrivals)
        newest = max((produced for produced, _ in arrivals), default=since)
        return max([took for produced, took in arrivals if produced >= since] + [time.time() - max(newest, since)])

    def received(self, topic: str, value: bytes) -> None:
        produced = float(value)
        self._arrivals.append((produced, time.time() - produced))
        super().received(topic, value)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._brokers, "linger.ms": 1})
        while not self._stop.wait(1 / _RATE):  # the pace of the load
            producer.produce(self._topic, b"%.6f" % time.time(), partition=0)
            producer.poll(0)
        producer.flush(_TIMEOUT_S)

    def __enter__(self) -> Neighbour:
        super().__enter__()
        self.await_all([self._topic])
        self._producing.start()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._producing.join(_TIMEOUT_S)
