"""A topic that is written all the time, and three groups that read it: librdkafka's, Java's and Spark's members."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from sharegroup.spark import ShareConsumer as SparkShareConsumer
from sharegroup.spark import ShareConsumerQuery
from sharegroup.testing.delivery_audit import audit
from sharegroup.testing.logged_process import LoggedProcess
from tests.harness.share_group_job import QUERY_FAILED, ShareGroupJobRun
from tests.integration.java_tool import tool_command
from tests.integration.share_members import Key
from tests.integration.waiting import PATIENCE_S, wait_until

_PAUSE_S = 0.1  # between the producer's records
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


class Seen:
    """What the members of a group were given, and what they were answered.

    `violations`: records that came after their acknowledgement had been answered without an error. `values`: the values
    of the records, where the member has them.
    """

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.values: dict[Key, bytes] = {}
        self.violations: list[Key] = []
        self._accepted: set[Key] = set()
        self._lock = threading.Lock()

    def given(self, keys: Iterable[Key]) -> None:
        """Records came."""
        with self._lock:
            for partition, offset in keys:
                self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)
                if (partition, offset) in self._accepted:
                    self.violations.append((partition, offset))

    def answered(self, offsets: Mapping[Any, Iterable[int]], error: KafkaException | None) -> None:
        """Acknowledgements were answered, as the client's callback has it."""
        if error is None:
            with self._lock:
                self._accepted |= {
                    (partition.partition, offset) for partition in offsets for offset in offsets[partition]
                }


class _Loop(threading.Thread):
    """Runs `turn` again and again inside the `with` block. `check` and the end of the block raise its error."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def turn(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called in the thread after the last turn."""

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self.turn()
            self.close()
        except BaseException as error:  # noqa: BLE001 - raised in `__exit__`
            self._error = error

    def __enter__(self) -> _Loop:
        self.start()
        return self

    def check(self) -> None:
        """Raise the error that has ended the thread."""
        if self._error is not None:
            raise self._error

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        self.check()


class _Writer(_Loop):
    """Appends a partition's number and a counter to each partition in turn; `ends` has how many records each one took.

    While brokers fail, a record may be stored twice, although the producer is idempotent. This was seen once, when two
    of three brokers were killed. The counter is then not the offset.
    """

    def __init__(self, servers: str, topic: str, ends: dict[int, int]) -> None:
        super().__init__()
        self._topic, self._ends, self._next = topic, ends, dict(ends)
        settings = {"enable.idempotence": True, "message.timeout.ms": 1000 * PATIENCE_S, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": servers, **settings})

    def turn(self) -> None:
        for partition, offset in self._next.items():
            value = f"{partition} {offset}"
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._appended)
            self._next[partition] += 1
        self._producer.poll(0)
        self._ended.wait(_PAUSE_S)  # the pace of the load, not a wait for something

    def close(self) -> None:
        if self._producer.flush(PATIENCE_S) or self._next != self._ends:
            raise AssertionError(f"not all was appended: {self._ends} of {self._next}")

    def _appended(self, error: KafkaError | None, message: Message) -> None:
        if error is None:  # the offset is unknown if the answer to an earlier attempt was lost
            self._ends[message.partition()] += 1


class _LibrdkafkaMember(_Loop):
    """Accepts what it gets, with its next poll."""

    def __init__(self, servers: str, group_id: str, topic: str, seen: Seen) -> None:
        super().__init__()
        self._seen = seen
        self._consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": group_id, "log_level": 0})
        self._consumer.set_acknowledgement_commit_callback(seen.answered)
        self._consumer.subscribe([topic])

    def turn(self) -> None:
        messages = [message for message in self._consumer.poll(timeout=0.2) if message.error() is None]
        keys = [(message.partition(), message.offset()) for message in messages]
        self._seen.values.update(zip(keys, (message.value() or b"" for message in messages), strict=True))
        self._seen.given(keys)

    def close(self) -> None:
        self._consumer.close()


class SteadyLoad:
    """Members of all kinds, inside the `with` block; `gateways` are the addresses of each gateway.

    `writing` produces while its block runs, and then waits until each group has finished every record, once.
    """

    def __init__(
        self, spark: SparkSession, job: ShareGroupJobRun, gateways: Sequence[str], topic: str, partitions: int,
        directory: Path,
    ) -> None:  # fmt: skip
        self._spark, self._job, self._gateways = spark, job, gateways
        self._topic, self._directory = topic, directory
        self._ends = dict.fromkeys(range(partitions), 0)
        self._groups = {kind: job.new_group() for kind in ("librdkafka", "java", "spark")}
        self._seen = {kind: Seen() for kind in self._groups}
        self._members = ExitStack()
        self._loops: list[_Loop] = []

    def __enter__(self) -> SteadyLoad:
        with ExitStack() as members:
            group_id, seen = self._groups["librdkafka"], self._seen["librdkafka"]
            for servers in self._gateways:
                member = _LibrdkafkaMember(servers, group_id, self._topic, seen)
                self._loops.append(member)
                members.enter_context(member)
            self._java = members.enter_context(self._console(",".join(self._gateways)))
            self._query = members.enter_context(self._spark_member())
            self._members = members.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._members.close()

    def _console(self, servers: str) -> LoggedProcess:
        arguments = ["--bootstrap-server", servers, "--topic", self._topic, "--group", self._groups["java"]]
        return LoggedProcess("Java member", tool_command(_CONSOLE, arguments), self._directory / "java.log")

    @contextmanager
    def _spark_member(self) -> Iterator[ShareConsumerQuery]:
        job = self._job.config.job
        with SparkShareConsumer(
            self._spark,
            bootstrap_servers=self._job.bootstrap_servers,
            group_id=self._groups["spark"],
            topics=[self._topic],
            checkpoint=str(self._directory / "spark"),
            share_group_requests_topic=job.group_requests_topic,
            share_partition_requests_topic=job.partition_requests_topic,
            share_group_responses_topic=job.responses_topic,
        ) as member:
            yield member.start(self._handle)

    def _handle(self, records: DataFrame, batch_id: int) -> None:
        rows = records.select("partition", "offset").collect()
        self._seen["spark"].given((row["partition"], row["offset"]) for row in rows)

    @property
    def written(self) -> int:
        """The number of records that were appended."""
        return sum(self._ends.values())

    def await_written(self, records: int) -> None:
        """Wait until so many more records have been appended."""
        until = self.written + records
        wait_until(lambda: self.written >= until, f"{records} more records are appended", PATIENCE_S)

    @contextmanager
    def writing(self, *, may_queries_restart: bool = False) -> Iterator[SteadyLoad]:
        """Produce inside the block. AssertionError unless every record was finished once by each group.

        Unless `may_queries_restart`, a query of the job that failed is an error as well.
        """
        with _Writer(self._job.bootstrap_servers, self._topic, self._ends):
            self.await_deliveries()
            yield self
        ends = {(self._topic, partition): end for partition, end in self._ends.items()}
        tables = str(self._job.tables_path)
        for kind, group_id in self._groups.items():
            wait_until(lambda of=group_id: not audit(tables, of, ends), f"all is finished in {kind}", PATIENCE_S)
        assert {kind: seen.violations for kind, seen in self._seen.items()} == {kind: [] for kind in self._groups}
        values = self._values_in_log()
        assert [key for key, value in self._seen["librdkafka"].values.items() if values[key] != value] == []
        assert may_queries_restart or QUERY_FAILED not in self._job.log
        assert self._job.process.exit_code is None

    def await_deliveries(self) -> None:
        """Wait until each group was given a record of each partition that is appended after this call."""
        ends = dict(self._ends)

        def is_past(kind: str) -> bool:
            for loop in self._loops:
                loop.check()
            assert not self._query.await_termination(0)  # raises what ended the query
            if kind == "java":
                lines = self._java.log_path.read_text(errors="replace").splitlines()
                words = [line.split() for line in lines]
                self._seen["java"].given((int(w[0]), int(w[1])) for w in words if len(w) == 2 and w[0].isdecimal())
            seen = self._seen[kind].ends
            return all(seen.get(partition, 0) > end for partition, end in ends.items())

        for kind in self._groups:
            wait_until(lambda of=kind: is_past(of), f"{kind} goes on after {ends}", PATIENCE_S)

    def _values_in_log(self) -> dict[Key, bytes]:
        """Read the whole topic with a plain consumer."""
        settings = {"bootstrap.servers": self._job.bootstrap_servers, "group.id": "unused", "log_level": 0}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        partitions = [TopicPartition(self._topic, partition, 0) for partition in self._ends]
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=60)[1] for each in partitions}
        consumer.assign(partitions)
        values: dict[Key, bytes] = {}
        while len(values) < sum(ends.values()):
            messages = [message for message in consumer.consume(10_000, timeout=1) if message.error() is None]
            values.update({(message.partition(), message.offset()): message.value() for message in messages})
        consumer.close()
        return values
