"""Spark jobs as members of share groups, against the real job and broker."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Committed
from deltalake import DeltaTable
from kafka import KafkaProducer
from kafka.errors import GroupIdNotFoundError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.errors import RequestError
from sharegroup.kafka_clients.topic_lookup import TopicLookup
from sharegroup.member.member import Member
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.spark import DeltaSink, ShareConsumer
from sharegroup.spark.share_consumer.consumer import member_id
from sharegroup.spark.share_consumer.consumer_query import ShareConsumerQuery
from sharegroup.spark.share_consumer.lock_guard import LocksLostError
from sharegroup.storage import read_group
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import Cause
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.harness.submitted_job import SubmittedJob
from tests.integration.waiting import PATIENCE_S, wait_until
from tests.integration.whole_log import whole_delivery_log
from tests.params import thorough

Key = tuple[int, int]  # partition, offset


@pytest.fixture
def job(share_group_job: ShareGroupJobRun) -> ShareGroupJobRun:
    return share_group_job


@pytest.fixture
def topic(kafka: EmbeddedKafka, unique_name: Callable[[str], str]) -> str:
    name = unique_name("records")
    kafka.create_topic(name, partitions=2)
    return name


def produce(kafka: EmbeddedKafka, topic: str, each: int, partitions: int = 2) -> set[Key]:
    """`each` records to each of the partitions; their (partition, offset)."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    count = partitions * each
    sent = [producer.send(topic, key=b"k", value=str(n).encode(), partition=n % partitions) for n in range(count)]
    found = {(future.get(PATIENCE_S).partition, future.get().offset) for future in sent}
    producer.close()
    return found


def row_topics(job: ShareGroupJobRun) -> dict[str, str]:
    return {
        "share_group_requests_topic": job.config.job.group_requests_topic,
        "share_partition_requests_topic": job.config.job.partition_requests_topic,
        "share_group_responses_topic": job.config.job.responses_topic,
    }


def consumer(
    spark: SparkSession, job: ShareGroupJobRun, group_id: str, topic: str | None, checkpoint: Path, **settings: Any
) -> ShareConsumer:
    return ShareConsumer(
        spark,
        bootstrap_servers=job.bootstrap_servers,
        group_id=group_id,
        topics=None if topic is None else [topic],
        checkpoint=str(checkpoint),
        **row_topics(job),
        **settings,
    )


class Deliveries:
    """What handlers have seen: (partition, offset) -> delivery counts, in order."""

    def __init__(self) -> None:
        self.seen: dict[Key, list[int]] = {}
        self._changed = threading.Condition()

    def add(self, records: DataFrame) -> list[Key]:
        rows = records.select("partition", "offset", "delivery_count").collect()
        with self._changed:
            for partition, offset, count in rows:
                self.seen.setdefault((partition, offset), []).append(count)
            self._changed.notify_all()
        return [(partition, offset) for partition, offset, _ in rows]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), f"{len(self.seen)} records seen"


def accepted(job: ShareGroupJobRun, group_id: str) -> list[dict[str, Any]]:
    """The group's delivery log, accepted ranges only."""
    filters = [("group_id", "=", group_id), ("cause", "=", Cause.ACCEPT.value)]
    return whole_delivery_log(job.tables_path).to_pyarrow_table(filters=filters).to_pylist()


def logged(job: ShareGroupJobRun, group_id: str) -> Counter[str]:
    """Records by cause, from the group's delivery log."""
    rows = whole_delivery_log(job.tables_path).to_pyarrow_table(filters=[("group_id", "=", group_id)])
    found: Counter[str] = Counter()
    for row in rows.to_pylist():
        found[row["cause"]] += row["last_offset"] - row["first_offset"] + 1
    return found


def keys_in(sink: Path) -> list[Key]:
    """What is in a Delta table of records, as often as it is there."""
    rows = DeltaTable(str(sink)).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def renewed_for(job: ShareGroupJobRun, group_id: str) -> timedelta:
    """From the group's first acquisition to its last renewal."""
    rows = whole_delivery_log(job.tables_path).to_pyarrow_table(filters=[("group_id", "=", group_id)])
    log = rows.to_pylist()
    renewed = [row["time"] for row in log if row["cause"] == Cause.RENEW.value]
    return max(renewed) - min(row["time"] for row in log) if renewed else timedelta(0)


def test_everything_is_accepted(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    group_id, deliveries = job.new_group(), Deliveries()
    sent = produce(kafka, topic, 500)
    columns: list[str] = []

    def handle(records: DataFrame, batch_id: int) -> None:
        columns[:] = records.columns
        deliveries.add(records)

    with consumer(spark, job, group_id, topic, tmp_path) as member:
        query = member.start(handle)
        deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    assert query.await_termination(0)
    assert {tuple(counts) for counts in deliveries.seen.values()} == {(1,)}
    assert set(columns) == {
        "key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType", "delivery_count"
    }  # fmt: skip
    assert logged(job, group_id)[Cause.ACCEPT.value] == len(sent)
    assert (query.group_id, query.member_id) == (group_id, member.member_id)
    assert (query.handler_errors, query.redelivered, query.is_active) == (0, 0, False)
    said, taken = query.metrics(), query._query.recentProgress
    assert said["consumer-share-fetch-manager-metrics"]["records-consumed-total"] == len(sent)
    assert said["consumer-share-fetch-manager-metrics"]["acknowledgements-send-total"] == len(sent)
    assert said["consumer-share-coordinator-metrics"]["heartbeat-total"] >= 2
    observed = [progress.observedMetrics.get("consumer-share-fetch-manager-metrics") for progress in taken]
    assert sum(row["records-consumed"] for row in observed if row is not None) == len(sent)


def test_a_group_that_reads_committed_gets_nothing_else(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    job: ShareGroupJobRun,
    topic: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
) -> None:
    """Whatever the consumer was told: the grants say how they are to be read."""
    group_id, values = job.new_group("read_committed"), Counter[bytes]()
    writer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique_name("writer"), "log_level": 1}
    )
    writer.init_transactions()
    for number in range(6):
        writer.begin_transaction()
        for _ in range(10):
            writer.produce(topic, b"committed" if number % 2 else b"aborted", partition=0)
        writer.flush()
        if number % 2:
            writer.commit_transaction()
        else:
            writer.abort_transaction()

    def handle(records: DataFrame, batch_id: int) -> None:
        values.update(bytes(row["value"]) for row in records.select("value").collect())

    told = {"isolation.level": "read_uncommitted"}
    with consumer(spark, job, group_id, topic, tmp_path, kafka=told) as member:
        member.start(handle)
        expected = {"accept": 30, "gap": 30 + 6}  # the aborted records and the transactions' markers
        wait_until(lambda: expected.items() <= logged(job, group_id).items(), "all records are acknowledged")
    assert values == {b"committed": 30}


@pytest.mark.thorough
def test_a_topic_made_again_is_read_from_its_start(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    """The sink has all records of both topics, under their ids."""
    group_id, sink = job.new_group(), tmp_path / "sink"
    old, lookup = produce(kafka, topic, 100), TopicLookup({"bootstrap_servers": kafka.bootstrap_servers})
    old_id = lookup.describe_topics([topic])[topic].topic_id
    with consumer(spark, job, group_id, topic, tmp_path / "checkpoint") as member:
        query = member.start(DeltaSink(member, str(sink)))
        wait_until(lambda: logged(job, group_id)["accept"] == len(old), "the old topic's records are accepted")
        kafka.admin_client().delete_topics([topic])
        wait_until(lambda: not lookup.describe_topics([topic]), "the topic is gone")
        kafka.create_topic(topic, partitions=2)
        wait_until(lambda: bool(lookup.describe_topics([topic])), "it is there again")
        new_id = lookup.describe_topics([topic])[topic].topic_id
        new = produce(kafka, topic, 50)
        wait_until(lambda: logged(job, group_id)["accept"] == len(old) + len(new), "so are the new one's")
        assert {share_partition.topic_id for share_partition in query.assignment} == {new_id}
    lookup.close()
    rows = DeltaTable(str(sink)).to_pyarrow_table(columns=["topic_id", "partition", "offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(
        [(old_id, *key) for key in old] + [(new_id, *key) for key in new]
    )


def test_a_result_names_the_exceptions(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    group_id, deliveries = job.new_group(), Deliveries()
    sent = produce(kafka, topic, 50)

    def handle(records: DataFrame, batch_id: int) -> DataFrame:
        deliveries.add(records)
        said = F.when(F.expr("offset % 10 = 0"), "reject").when(F.expr("offset % 10 = 1"), "RELEASE")
        odd = records.where("delivery_count = 1 AND offset % 10 < 2")
        return odd.select("topic", "partition", "offset", said.alias("acknowledge_type"))

    released = {key for key in sent if key[1] % 10 == 1}
    with consumer(spark, job, group_id, topic, tmp_path) as member:
        member.start(handle)
        deliveries.wait_for(lambda: all(deliveries.seen.get(key) == [1, 2] for key in released))
        deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    assert {key for key, counts in deliveries.seen.items() if len(counts) > 1} == released
    log = logged(job, group_id)
    assert (log["reject"], log["release"], log["accept"]) == (10, 10, 90)


def test_a_failed_batch_comes_back(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    deliveries, failures = Deliveries(), iter([ValueError("once")])
    sent = produce(kafka, topic, 20)

    def handle(records: DataFrame, batch_id: int) -> None:
        error = next(failures, None)
        if error is not None:
            raise error
        deliveries.add(records)

    with consumer(spark, job, job.new_group(), topic, tmp_path) as member:
        query = member.start(handle)
        deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    assert query.handler_errors == 1
    assert isinstance(query.last_handler_error, ValueError)
    assert {2} <= {counts[0] for counts in deliveries.seen.values()} <= {1, 2}


@pytest.mark.thorough
def test_a_new_member_does_not_take_the_name_of_a_consumer_group(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    deliveries, group_id, sent = Deliveries(), job.new_group(), produce(kafka, topic, 1)

    def handle(records: DataFrame, batch_id: int) -> None:
        deliveries.add(records)

    with consumer(spark, job, group_id, topic, tmp_path / "first") as member:
        member.start(handle)
        deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    others = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group_id})
    others.commit(offsets=[Committed(topic, 0, 1)], asynchronous=False)
    others.close()
    with pytest.raises(GroupIdNotFoundError, match="is not a share group"):
        consumer(spark, job, group_id, topic, tmp_path / "second").start(handle)
    more = produce(kafka, topic, 1)
    with consumer(spark, job, group_id, topic, tmp_path / "first") as member:  # it goes on, as it did before
        member.start(handle)
        deliveries.wait_for(lambda: set(deliveries.seen) == sent | more)


def test_a_wrong_result_releases_the_batch_and_a_lasting_fault_ends_the_query(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    group_id = job.new_group()
    produce(kafka, topic, 1)

    def handle(records: DataFrame, batch_id: int) -> DataFrame:
        return records.select("topic", "partition", (F.col("offset") + 1_000).alias("offset")).withColumn(
            "acknowledge_type", F.lit(2)
        )

    query = consumer(spark, job, group_id, topic, tmp_path, max_failures=2).start(handle)
    with pytest.raises(Exception, match="is not in the batch"):
        query.await_termination(PATIENCE_S)
    assert query.handler_errors == 2
    assert logged(job, group_id)["release"] >= 2


@pytest.mark.thorough
def test_a_slow_member_holds_up_nobody(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    """Its locks are renewed, and run out for nobody."""
    group_id, slow, fast = job.new_group("renewed_lock"), Deliveries(), Deliveries()
    go_on, is_slow = threading.Event(), threading.Event()
    sent = produce(kafka, topic, 500)

    def wait(records: DataFrame, batch_id: int) -> None:
        slow.add(records)
        is_slow.set()
        assert go_on.wait(PATIENCE_S)

    with (
        consumer(spark, job, group_id, topic, tmp_path / "slow", max_records=100) as one,
        consumer(spark, job, group_id, topic, tmp_path / "fast", max_records=100) as two,
    ):
        one.start(wait)
        assert is_slow.wait(PATIENCE_S)
        two.start(lambda records, batch_id: fast.add(records) and None)
        fast.wait_for(lambda: set(fast.seen) | set(slow.seen) == sent)
        lock = timedelta(milliseconds=job.config.group_config(group_id).record_lock_duration_ms)
        wait_until(lambda: renewed_for(job, group_id) > lock, "locks live longer than they last")
        later = produce(kafka, topic, 5)
        fast.wait_for(lambda: later <= set(fast.seen))
        go_on.set()
    assert 0 < len(slow.seen) <= 100 + 10
    assert set(slow.seen).isdisjoint(fast.seen)


@pytest.mark.thorough
def test_a_static_member_stays_through_a_restart_until_it_leaves_for_good(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    """Another checkpoint is the same member; the latest of two processes is served, the other one ends."""
    group_id, deliveries = job.new_group(), Deliveries()

    def members() -> dict[str | None, tuple[str, bool]]:
        group = read_group(str(job.tables_path), group_id)
        found = group.members if group else ()
        return {m.group_instance_id: (m.member_id, m.incarnation_id == "") for m in found}

    def started(checkpoint: str) -> ShareConsumerQuery:
        made = consumer(spark, job, group_id, topic, tmp_path / checkpoint, group_instance_id="worker-1")
        return made.start(lambda records, batch_id: deliveries.add(records) and None)

    first = started("first")
    wait_until(lambda: bool(first.assignment), "it is assigned its share-partitions")
    sent = produce(kafka, topic, 10)
    deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    first.stop()
    assert members() == {"worker-1": (first.member_id, True)}
    second = started("second")
    wait_until(lambda: members() == {"worker-1": (first.member_id, False)}, "it is back")
    client = job.client()
    third = HeartbeatRequest(
        client.next_id(), group_id, client.reply_to, member_id="", member_epoch=0, subscribed_topic_names=(topic,),
        group_instance_id="worker-1", incarnation_id="third",
    )  # fmt: skip
    answer = client.call(third)
    assert isinstance(answer, HeartbeatResponse)
    assert answer.member_id == first.member_id
    with pytest.raises(RequestError, match="FENCED_INSTANCE_ID"):
        second.await_termination(PATIENCE_S)
    assert members() == {"worker-1": (first.member_id, False)}
    fourth = started("fourth")
    wait_until(lambda: bool(fourth.assignment), "it has joined")
    fourth.stop(leave_group=True)
    assert members() == {}
    assert {counts[0] for counts in deliveries.seen.values()} == {1}


def test_topics_are_subscribed_to_by_pattern_and_changed_while_the_query_runs(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    group_id, deliveries = job.new_group(), Deliveries()
    another = f"{topic}-again"
    with consumer(spark, job, group_id, None, tmp_path / "checkpoint", pattern=f"{topic}.*") as member:
        query = member.start(lambda records, batch_id: deliveries.add(records) and None)
        wait_until(lambda: {read.topic for read in query.assignment} == {topic}, "the topic that there is matches")
        kafka.create_topic(another, partitions=3)
        query.subscribe([another])
        wait_until(lambda: {read.topic for read in query.assignment} == {another}, "it reads the other one alone")
        produce(kafka, topic, 3)
        of_another = produce(kafka, another, 3, partitions=3)
        deliveries.wait_for(lambda: set(deliveries.seen) == of_another)
        query.subscribe(pattern=f"{topic}.*")
        wait_until(lambda: {read.topic for read in query.assignment} == {topic, another}, "it reads both")
        deliveries.wait_for(lambda: sum(map(len, deliveries.seen.values())) == 3 * 3 + 2 * 3)


@pytest.mark.thorough
def test_a_sink_leaves_out_what_it_has(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    """Appended, but not acknowledged: the records come back and must not be there twice."""
    sent = produce(kafka, topic, 50)
    failures, deliveries = iter([RuntimeError("after the append")]), Deliveries()
    member = consumer(spark, job, job.new_group(), topic, tmp_path / "checkpoint")
    sink = DeltaSink(member, str(tmp_path / "sink"))

    def handle(records: DataFrame, batch_id: int) -> None:
        sink(records, batch_id)
        error = next(failures, None)
        if error is not None:
            raise error
        deliveries.add(records)

    with member:
        member.start(handle)
        deliveries.wait_for(lambda: set(deliveries.seen) == sent)
    assert {2} <= {counts[0] for counts in deliveries.seen.values()}
    assert keys_in(tmp_path / "sink") == sorted(sent)


@pytest.mark.thorough
def test_a_sink_appends_nothing_without_its_locks(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    """The first write would not end: it is cancelled, and the records come back."""
    group_id, sent = job.new_group(), produce(kafka, topic, 20)
    member = consumer(
        spark, job, group_id, topic, tmp_path / "checkpoint", max_processing_ms=5_000, max_failures=10
    )  # fmt: skip
    sink, is_first = DeltaSink(member, str(tmp_path / "sink")), iter([True])

    def handle(records: DataFrame, batch_id: int) -> None:
        hangs = F.expr("java_method('java.lang.Thread', 'sleep', 600000L) IS NULL")
        sink(records.where(~hangs) if next(is_first, False) else records, batch_id)

    with member:
        query = member.start(handle)
        wait_until(lambda: logged(job, group_id)["accept"] == len(sent), "all records are accepted")
    assert isinstance(query.last_handler_error, LocksLostError)
    assert keys_in(tmp_path / "sink") == sorted(sent)


@pytest.mark.thorough
def test_a_batch_run_again_leaves_out_what_another_member_did(
    spark: SparkSession, kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The first one dies in its batch before anything is appended, and starts again when another has done the work."""
    group_id, sent, sink = job.new_group(), produce(kafka, topic, 50), tmp_path / "sink"

    def die(*_: object) -> None:
        raise RuntimeError("in the batch")

    with monkeypatch.context() as dying:
        dying.setattr(Member, "acknowledge", die)
        query = consumer(spark, job, group_id, topic, tmp_path / "one").start(lambda *_: None)
        with pytest.raises(StreamingQueryException, match="in the batch"):
            query.await_termination(PATIENCE_S)
    with consumer(spark, job, group_id, topic, tmp_path / "other") as other:
        other.start(DeltaSink(other, str(sink)))
        wait_until(lambda: logged(job, group_id)["accept"] == len(sent), "the other member has accepted all")
    with consumer(spark, job, group_id, topic, tmp_path / "one") as again:
        again.start(DeltaSink(again, str(sink)))
        sent |= produce(kafka, topic, 1)
        wait_until(lambda: logged(job, group_id)["accept"] == len(sent), "it goes on")
    assert keys_in(sink) == sorted(sent)


KILLED_IN_A_BATCH = """
import logging, os, signal, sys
from pathlib import Path
from sharegroup.spark import DeltaSink, ShareConsumer, build_session
from sharegroup.spark.job.stop_signal import StopSignal

logging.basicConfig()
logging.getLogger("sharegroup").setLevel(logging.INFO)
servers, group_id, topic, directory, *row_topics = sys.argv[1:]
names = ("share_group_requests_topic", "share_partition_requests_topic", "share_group_responses_topic")
spark = build_session("killed")
stop = StopSignal(spark)
consumer = ShareConsumer(spark, bootstrap_servers=servers, group_id=group_id, topics=[topic],
                         checkpoint=directory + "/checkpoint", **dict(zip(names, row_topics)))
sink = DeltaSink(consumer, directory + "/sink")
mark = Path(directory) / "was-killed"

def handle(records, batch_id):
    sink(records, batch_id)
    if not mark.exists():
        mark.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

query = consumer.start(handle)
while query.is_active and not stop.wait(0.1):
    pass
query.stop()
query.await_termination()
spark.stop()
"""


@pytest.mark.parametrize("is_still_member", [True, False])
@pytest.mark.long
def test_a_batch_that_was_killed_after_its_append_is_there_once(
    kafka: EmbeddedKafka,
    job: ShareGroupJobRun,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    is_still_member: bool,
) -> None:
    """Killed between append and acknowledgement; at the restart its locks are still held, or are gone.

    One partition, so that all records are in the batch: of what was granted after it, a killed member knows nothing.
    """
    group_id, topic = job.new_group(), unique_name("records")
    kafka.create_topic(topic)
    sent = produce(kafka, topic, 200, partitions=1)
    script = tmp_path / "killed.py"
    script.write_text(KILLED_IN_A_BATCH)
    arguments = [job.bootstrap_servers, group_id, topic, str(tmp_path), *row_topics(job).values()]
    with SubmittedJob(str(script), arguments, tmp_path / "log") as first:
        assert first.wait(PATIENCE_S) != 0
    assert (tmp_path / "was-killed").exists()
    if not is_still_member:
        RawMember(job.client(), group_id, member_id(str(tmp_path / "checkpoint"), group_id)).leave()
        await_that(lambda: logged(job, group_id)["member_left"] == len(sent), job.process)
    with SubmittedJob(str(script), arguments, tmp_path / "log") as second:
        await_rows(tmp_path / "sink", len(sent), second)
        await_that(lambda: logged(job, group_id)["accept"] == len(sent), second)
        assert second.terminate() == 0
    assert keys_in(tmp_path / "sink") == sorted(sent)
    assert "of an earlier process runs again after its" in (tmp_path / "log").read_text()
    assert {row["delivery_count"] for row in accepted(job, group_id)} == ({1} if is_still_member else {2})


@pytest.mark.long
def test_the_job_appends_and_stops_between_batches(
    kafka: EmbeddedKafka, job: ShareGroupJobRun, topic: str, tmp_path: Path
) -> None:
    group_id = job.new_group()
    sent = produce(kafka, topic, 100)
    with SubmittedJob(
        "jobs/consume_acquired_batches.py",
        [
            *("--bootstrap-servers", job.bootstrap_servers, "--group-id", group_id, "--topics", topic),
            *("--sink", "sink", "--checkpoint", "checkpoint", "--max-records", "150"),
            *(f"--{name.replace('_', '-')}={value}" for name, value in row_topics(job).items()),
        ],
        tmp_path / "log",
        working_directory=tmp_path,
    ) as submitted:
        await_rows(tmp_path / "sink", len(sent), submitted)
        assert submitted.terminate() == 0
    rows = DeltaTable(str(tmp_path / "sink")).to_pyarrow_table().to_pylist()
    assert sorted((row["partition"], row["offset"]) for row in rows) == sorted(sent)
    assert {row["delivery_count"] for row in rows} == {1}
    assert {bytes(row["value"]) for row in rows} == {str(n).encode() for n in range(200)}


def await_rows(sink: Path, rows: int, submitted: SubmittedJob) -> None:
    await_that(lambda: DeltaTable.is_deltatable(str(sink)) and DeltaTable(str(sink)).count() >= rows, submitted)


def await_that(condition: Callable[[], bool], submitted: SubmittedJob) -> None:
    """Tables of another process have no event to wait for."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert submitted.exit_code is None, submitted.log_tail()
        assert time.monotonic() < deadline, submitted.log_tail()
        time.sleep(0.1)


@pytest.mark.parametrize("reads", [*thorough("all"), "the first"])
def test_offsets_without_a_record_are_gaps(
    spark: SparkSession,
    job: ShareGroupJobRun,
    topic: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
    reads: str,
) -> None:
    """Partition 0: three committed records and their marker, two aborted ones and theirs. Partition 1: no gap."""
    writer = KafkaProducer(bootstrap_servers=job.bootstrap_servers, transactional_id=unique_name("tx"))
    writer.init_transactions()
    for count, end in ((3, writer.commit_transaction), (2, writer.abort_transaction)):
        writer.begin_transaction()
        for _ in range(count):
            writer.send(topic, b"record", partition=0).get(PATIENCE_S)
        end()
    writer.close()
    plain = KafkaProducer(bootstrap_servers=job.bootstrap_servers)
    for _ in range(4):
        plain.send(topic, b"record", partition=1).get(PATIENCE_S)
    plain.close()
    group = job.new_group("read_committed")

    def handle(records: DataFrame, batch_id: int) -> None:
        if reads == "all":
            records.collect()
        else:
            records.take(1)

    query = consumer(spark, job, group, topic, tmp_path / "member").start(handle)
    try:
        wait_until(lambda: len(finished(job, group)) == 11, "all offsets are finished")
    finally:
        query.stop()
    assert finished(job, group) == {
        **{(0, offset): Cause.ACCEPT.value for offset in range(3)},
        **{(0, offset): Cause.GAP.value for offset in range(3, 7)},
        **{(1, offset): Cause.ACCEPT.value for offset in range(4)},
    }


def finished(job: ShareGroupJobRun, group_id: str) -> dict[Key, str]:
    """By record, why it is finished."""
    rows = whole_delivery_log(job.tables_path).to_pyarrow_table(filters=[("group_id", "=", group_id)]).to_pylist()
    return {
        (row["partition"], offset): row["cause"]
        for row in rows
        if row["to_state"] in ("ACKNOWLEDGED", "ARCHIVED")
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    }
