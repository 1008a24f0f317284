"""B4: a start from the tables alone, without a checkpoint, against an empty start.

Measured from `spark-submit` to the answer to a fetch that was waiting in the request topic: the job leads, has loaded
everything and works. The tables are written by the real operator and the real commit steps; those of a month, and of
100,000 share-partitions, are generated (`month`).
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from sharegroup.config import JobConfig
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.kafka_clients.row_topics.job_topics import create_topics
from sharegroup.protocol.rows.response_rows import decode_responses
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUP_STATE, SHARE_PARTITION_TABLES
from sharegroup.storage.writing.delta_table import DeltaTableWriter, open_or_create
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, SharePartitionKey
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, row_topics, write_config
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.month import FULL, MANY, SMALL, write_month
from tests.benchmarks.process_tree import Memory
from tests.benchmarks.steady_batches import MEMBER_ID, SteadyBatches
from tests.benchmarks.upkeep import NoProducer

NAME = "B4"
_GROUP_ID = "benchmark"
_STATE_BATCHES = 100
_REACH_S = 10.0
_MONTH_REACH_S, _MANY_REACH_S, _REACH_MB = 5.0, 90.0, 2_000
_SHARDS = 8
_TIMEOUT_S = 300


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Seconds of each start, in turns."""
    many, repeats = (50, 1) if quick else (1_000, 3)
    kafka.create_topic("full", partitions=many)
    topics.fill(kafka.bootstrap_servers, "full", many, many * _STATE_BATCHES * 2, 10)
    kafka.create_topic("empty", partitions=1)
    topics.fill(kafka.bootstrap_servers, "empty", 1, 100, 10)
    starts: dict[str, list[float]] = {"empty": [], "full": []}
    for repeat in range(repeats):
        for topic, partitions in (("empty", 1), ("full", many)):
            where = directory / f"{topic}-{repeat}"
            topic_id = topics.topic_id(kafka.bootstrap_servers, topic)
            _write_tables(str(where / "tables"), topic, topic_id, partitions, with_state=topic == "full")
            starts[topic].append(_start(kafka, where, topic, partitions)[0])
    full, empty = median(starts["full"]), median(starts["empty"])
    what = f"start with {many:,} share-partitions of {_STATE_BATCHES} state batches each"
    note = f"spark-submit to the answer of the first fetch, median of {repeats}; the empty start has one, without state"
    figure = Figure(NAME, what, full, "s", empty, full / empty, f"<= baseline + {_REACH_S:.0f} s",
                    full <= empty + _REACH_S, note)  # fmt: skip
    return [figure, *_long_after(kafka, directory, quick, empty)], dict(starts)


def _long_after(kafka: EmbeddedKafka, directory: Path, quick: bool, empty: float) -> list[Figure]:
    """Starts on a month's tables with 1,000 share-partitions, and with 100,000 of 500 groups."""
    month, many = (10, SMALL) if quick else (1_000, FULL), (10, SMALL) if quick else (200, MANY)
    cases = (("month", 1, *month, empty + _MONTH_REACH_S), ("many", 5 if quick else 500, *many, _MANY_REACH_S))
    figures = []
    for name, groups, partitions, sizes, reach_s in cases:
        kafka.create_topic(name, partitions=partitions)
        topics.fill(kafka.bootstrap_servers, name, partitions, partitions * 10, 10)
        topic_id = topics.topic_id(kafka.bootstrap_servers, name)
        group_ids = [_GROUP_ID, *(f"group-{number:03}" for number in range(1, groups))]
        keys = [SharePartitionKey(group, name, topic_id, p) for group in group_ids for p in range(partitions)]
        write_month(str(directory / name / "tables"), keys, sizes)
        took, memory = _start(kafka, directory / name, name, partitions, driver_memory="2g")
        what = f"start with {len(keys):,} share-partitions, {sizes.state:,} rows in share_group_state"
        figures.append(Figure(NAME, what, took, "s", empty, took / empty, f"<= {reach_s:.0f} s", took <= reach_s))
        driver_mb = memory.jvm_mb + memory.driver_python_mb
        reached = driver_mb <= _REACH_MB
        note = f"workers: {memory.python_workers_mb:.0f} MB"
        figures.append(Figure(NAME, "its driver then, JVM and Python", driver_mb, "MB", None, None,
                              f"<= {_REACH_MB} MB", reached, note))  # fmt: skip
    return figures


def _write_tables(tables_path: str, topic: str, topic_id: str, partitions: int, with_state: bool) -> None:
    """Share-partitions with, from offset 0 up, 100 state batches of one record: available again, acknowledged, ..."""
    now_ms = int(time.time() * 1000)
    group = CommitSteps([DeltaTableWriter(tables_path, spec) for spec in GROUP_COORDINATOR_TABLES], NoProducer())
    group.query_id = "00000000-0000-0000-0000-000000000002"
    group.become_leader()
    group.commit(Batch(0, now_ms, tables=_group_rows(topic, topic_id, partitions)))
    if not with_state:
        return
    writers = [DeltaTableWriter(tables_path, spec) for spec in SHARE_PARTITION_TABLES]
    steps = CommitSteps(writers, NoProducer())
    steps.query_id = "00000000-0000-0000-0000-000000000001"
    steps.become_leader()
    shard = SteadyBatches(_GROUP_ID, topic, range(partitions), now_ms, topic_id=topic_id)
    types = (AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT) * (_STATE_BATCHES // 2)
    told = AcknowledgementBatch(0, _STATE_BATCHES - 1, types)
    outputs = (shard.loaded, shard.fetch(_STATE_BATCHES, now_ms), shard.acknowledge(told, now_ms))
    for batch_id, output in enumerate(outputs):
        output.positions.clear()  # they are no rows of a topic
        steps.commit(Batch.from_outputs(batch_id, [output]))
    states = read_states(open_or_create(tables_path, SHARE_GROUP_STATE))
    sizes = {len(state.state_batches) for state in states.values()}
    if len(states) != partitions or sizes != {_STATE_BATCHES}:
        raise AssertionError(f"the tables have {len(states)} states with {sizes} batches")


def _group_rows(topic: str, topic_id: str, partitions: int) -> dict[str, list[dict[str, object]]]:
    share_partition = {
        "group_id": _GROUP_ID, "topic": topic, "topic_id": topic_id, "status": "initialized", "state_epoch": 0,
        "start_offset": 0,
    }  # fmt: skip
    return {
        "share_groups": [{"group_id": _GROUP_ID, "group_epoch": 1, "assignment_epoch": 1, "group_state": "Empty"}],
        "share_partitions": [{**share_partition, "partition": partition} for partition in range(partitions)],
    }


def _start(
    kafka: EmbeddedKafka, directory: Path, topic: str, partitions: int, driver_memory: str = "1g"
) -> tuple[float, Memory]:
    """Seconds from spark-submit to the answers of fetches at up to 8 share-partitions, one of each shard; and the
    memory then."""
    names = row_topics(directory.name)
    config = JobConfig.model_validate(names)
    wanted = dict.fromkeys(names.values(), config.request_topic_partitions)
    create_topics({"bootstrap_servers": kafka.bootstrap_servers}, wanted, 1, config.request_topic_retention_ms)
    asked = range(partitions)[-_SHARDS:]
    _ask(kafka, config, topic, asked)
    path = write_config(directory, kafka.bootstrap_servers, {"operator.shards": _SHARDS, **names}, groups=[_GROUP_ID])
    begin = time.monotonic()
    with Engine(path, driver_memory) as engine:
        _await_answers(kafka, config, len(asked))
        return time.monotonic() - begin, engine.processes.memory()


def _ask(kafka: EmbeddedKafka, config: JobConfig, topic: str, partitions: range) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    topic_id = topics.topic_id(kafka.bootstrap_servers, topic)
    for partition in partitions:
        named = str(partition), _GROUP_ID, topic, topic_id, partition, MEMBER_ID, 1, MEMBER_ID
        request = FetchRequest(*named, max_records=500, max_wait_ms=1)  # be there records or not
        producer.produce(config.partition_requests_topic, request.encode(), request.kafka_key)
    producer.flush()


def _await_answers(kafka: EmbeddedKafka, config: JobConfig, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "benchmark"})
    all_partitions = range(config.request_topic_partitions)
    consumer.assign([TopicPartition(config.responses_topic, p, OFFSET_BEGINNING) for p in all_partitions])
    deadline = time.monotonic() + _TIMEOUT_S
    answered = 0
    try:
        while answered < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{answered} of {count} fetches were answered within {_TIMEOUT_S} s")
            for message in consumer.consume(100, 0.05):
                if message.error() is None and message.key() == MEMBER_ID.encode():  # others are broadcasts
                    answered += len(decode_responses(message.value() or b""))
    finally:
        consumer.close()
