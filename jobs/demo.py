"""Demo of a share group on this machine: `make demo`.

The demo starts a broker, a topic with 2 partitions, the share-group job and four members, which is more than there are
partitions. Two members are confluent-kafka's unmodified ShareConsumer and one is this project's ShareConsumer for
Python, all connected to the gateway; the fourth is a Spark job. Half of the 40,000 records are produced at the
beginning. The other half is produced when the Spark member, which starts last, has joined, so that it receives some of
them. When it has acquired records, the share-group job is killed with SIGKILL and started again. At the end SQL queries
over the Delta tables show what happened to the records, and an audit checks each of them.

Exit code 0: every record reached exactly one final state and none was lost. Exit code 1: the output has the reason.
Everything that the demo writes is in var/demo and stays there.

The first run in a virtual environment also creates class-data archives, with which later runs start faster.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

import psutil
from deltalake.exceptions import TableNotFoundError
from rich.console import Console

from jobs.demo_tools.display import Display
from jobs.demo_tools.processes import (
    GROUP_ID,
    HOME,
    PARTITIONS,
    RUNNING,
    SPARK_MEMBER,
    TABLES,
    TOPIC,
    KafkaClient,
    PythonClient,
    broker,
    job_stage,
    produce,
    share_group_job,
    spark_member,
    write_config,
)
from sharegroup.cli.sql import to_table
from sharegroup.job.command_parser import CommandParser
from sharegroup.spark.jars import JarsError
from sharegroup.storage.reading.sql import run_query
from sharegroup.testing.class_archive import BROKER, SPARK
from sharegroup.testing.delivery_audit import Progress, TopicPartition, audit, progress
from sharegroup.testing.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.logged_process import LoggedProcess, LoggedProcessError

UNMODIFIED = 2
REFRESH_S = 1.0
#: Time limits in seconds: until the Spark member has joined, from then until it has acquired records, and from then
#: until all records are finished. They are about ten times the durations on an idle machine.
JOIN_S, ACQUIRE_S, FINISH_S = 180.0, 60.0, 300.0
SPARK_ACQUIRED = f"""\
SELECT sum(CASE cause WHEN 'fetch' THEN last_offset - first_offset + 1 ELSE 0 END) AS records
FROM share_group_members LEFT JOIN delivery_log USING (group_id, member_id)
WHERE client_id = '{SPARK_MEMBER}' GROUP BY member_id"""
QUERIES = {
    "How often the finished records were delivered, and how they ended": """\
SELECT delivery_count AS deliveries, to_state, cause, sum(last_offset - first_offset + 1) AS records
FROM delivery_log WHERE to_state IN ('ACKNOWLEDGED', 'ARCHIVED') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "What the members acquired, and how it ended: `returned` are locks that ended without an acknowledgement": """\
WITH ranges AS (SELECT client_id, member_id, cause, last_offset - first_offset + 1 AS records
  FROM delivery_log LEFT JOIN share_group_members USING (group_id, member_id))
SELECT client_id AS member,
  sum(CASE cause WHEN 'fetch' THEN records ELSE 0 END) AS acquired,
  sum(CASE cause WHEN 'accept' THEN records ELSE 0 END) AS accepted,
  sum(CASE cause WHEN 'reject' THEN records ELSE 0 END) AS rejected,
  sum(CASE cause WHEN 'release' THEN records ELSE 0 END) AS released,
  sum(CASE WHEN cause IN ('lock_timeout', 'member_left', 'unacquire') THEN records ELSE 0 END) AS returned
FROM ranges GROUP BY client_id, member_id ORDER BY acquired DESC""",
    "The leaders: the killed job, and its successor": """\
SELECT query, leader_epoch, application_id, time FROM share_group_job ORDER BY time""",
}
NEXT = """
Try next, with the tables that remain in {tables}:
  .venv/bin/sharegroup sql {tables} "SELECT time, to_state, cause, delivery_count, member_id
    FROM delivery_log WHERE partition = 0 AND 500 BETWEEN first_offset AND last_offset ORDER BY time"
  .venv/bin/sharegroup sql {tables}
  cat {home}/job.log
These show the history of a record that no member could process, all tables, and the log of the job."""


class Demo:
    """The demo. `run` stops all processes that it has started, also after an error."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._console = Console(width=None if sys.stdout.isatty() else 140)
        self._display = Display(self._console, f"share group {GROUP_ID} on topic {TOPIC}", records)
        self._produced = 0
        self._log_end_offsets: dict[TopicPartition, int] = {}

    def run(self) -> int:
        """Run the demo; return the exit code."""
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        with ExitStack() as stack:
            if not BROKER.exists:
                os.environ["KAFKA_OPTS"] = " ".join(BROKER.recording_options())
                stack.callback(BROKER.keep)
            kafka = broker()
            write_config(kafka.bootstrap_servers)
            # The job waits for its broker, so both start at the same time.
            starting = stack.enter_context(ThreadPoolExecutor(1)).submit(kafka.start)
            stack.callback(kafka.stop)
            self._job = share_group_job().start()
            stack.callback(lambda: self._job.kill())
            self._display.wait("a Kafka broker", starting.done)
            starting.result()
            clients = self._clients(self._prepared(kafka, stack), stack)
            self._await_job("the share-group job, which starts Spark")
            self._members = [*clients, self._spark_member(kafka, clients[0], stack)]
            problems = self._deliver(kafka)
            self._show_by_sql()  # before the members leave, which removes their rows from share_group_members
            self._console.print()
            problems += self._end()
        self._console.print("\n[bold]What the clients at the gateway processed, by their own count[/bold]")
        for client in clients:
            counts = ", ".join(f"{what} {count:,}" for what, count in sorted(client.processed_counts().items()))
            self._console.print(f"{client.log_path.stem}: {counts or 'nothing'}", highlight=False)
        return self._verdict(problems + audit(str(TABLES), GROUP_ID, self._log_end_offsets))

    def _prepared(self, kafka: EmbeddedKafka, stack: ExitStack) -> GatewayProcess:
        """Create the topic, produce the first half of the records, and start a gateway."""
        self._display.print_line(f"a Kafka broker on {kafka.bootstrap_servers}")
        kafka.create_topic(TOPIC, partitions=PARTITIONS)
        self._produce(kafka, self._records // 2)
        self._display.print_line(f"{self._produced:,} records in topic {TOPIC}, {PARTITIONS} partitions")
        gateway = GatewayProcess(HOME / "share_group.yaml", HOME / "gateway.log")
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(stack.enter_context, gateway)
            self._display.wait("a gateway", starting.done)
        starting.result()
        self._display.print_line(f"a gateway on {gateway.bootstrap_servers}")
        return gateway

    def _produce(self, kafka: EmbeddedKafka, until: int) -> None:
        """Produce records until the topic has `until` records."""
        produce(kafka.bootstrap_servers, range(self._produced, until))
        self._produced = until
        self._log_end_offsets = {(TOPIC, p): len(range(p, until, PARTITIONS)) for p in range(PARTITIONS)}

    def _clients(self, gateway: GatewayProcess, stack: ExitStack) -> list[KafkaClient]:
        """Start the Kafka clients. If the job is still starting, they wait until it is running."""
        self._display.print_line(f"starting {UNMODIFIED} unmodified Kafka clients and a Python client at the gateway")
        clients = [KafkaClient(gateway.bootstrap_servers, number) for number in range(1, UNMODIFIED + 1)]
        clients.append(PythonClient(gateway.bootstrap_servers, 1))
        return [stack.enter_context(client) for client in clients]

    def _spark_member(self, kafka: EmbeddedKafka, first: KafkaClient, stack: ExitStack) -> LoggedProcess:
        """Wait for the first delivery, then start the Spark member. An earlier start would delay that delivery."""
        self._display.print_line("the share-group job runs")
        self._display.wait("the first records", lambda: first.has_logged(KafkaClient.FIRST))
        self._display.print_line(f"delivered: {first.await_log(KafkaClient.FIRST).strip()}")
        self._display.print_line("starting a fourth member, a Spark job")
        return stack.enter_context(spark_member(kafka.bootstrap_servers))

    def _await_job(self, what: str, since: int = 0) -> None:
        log = self._job.log_path
        self._display.wait(what, lambda: self._job.has_logged(RUNNING, since), lambda: job_stage(log, since))

    def _deliver(self, kafka: EmbeddedKafka) -> list[str]:
        """Produce the second half of the records, kill and restart the job, and wait until all records are finished.

        Return a list of problems: the timeout, if one occurred.
        """
        with self._display.live_table():
            try:
                self._watch("the Spark member joined", JOIN_S, lambda _: _acquired_by_spark() is not None)
                self._produce(kafka, self._records)
                self._display.print_line("the Spark member has joined; the other half of the records is in the topic")
                self._watch("the Spark member acquired records", ACQUIRE_S, lambda _: bool(_acquired_by_spark()))
                self._display.print_line(f"the Spark member has acquired {_acquired_by_spark():,} records")
                self._kill_and_restart()
                self._watch("all records were finished", FINISH_S, self._is_finished)
            except TimeoutError as error:
                return [str(error)]
        return []

    def _watch(self, goal: str, limit_s: float, is_reached: Callable[[Progress], bool]) -> None:
        """Show the progress until the goal is reached.

        Raises TimeoutError after `limit_s` seconds, and LoggedProcessError if the job or a member has ended.
        """
        deadline = time.monotonic() + limit_s
        while True:
            now = _progress()
            self._display.show(now, self._log_end_offsets)
            if is_reached(now):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"it took longer than {limit_s:.0f} s until {goal}; see the logs {HOME}/*.log")
            for process in (self._job, *self._members):
                process.check_alive()
            time.sleep(REFRESH_S)  # the interval of the display

    def _is_finished(self, now: Progress) -> bool:
        return now.finished >= self._records and now.start_offsets == self._log_end_offsets

    def _kill_and_restart(self) -> None:
        since = self._job.log_path.stat().st_size
        self._job.kill()
        self._display.print_line(
            "the share-group job was killed (SIGKILL) and is started again; the members keep running"
        )
        begin, finished = time.monotonic(), _progress().finished
        job = self._job if SPARK.exists else share_group_job(SPARK.recording_options())
        self._job = job.start()
        self._await_job("the share-group job to come back", since)
        self._display.print_line(f"the share-group job runs again after {time.monotonic() - begin:.1f} s")
        self._display.wait("the first records after the restart", lambda: _progress().finished > finished)
        self._display.print_line(f"records are finished again {time.monotonic() - begin:.1f} s after the kill")

    def _end(self) -> list[str]:
        """Stop the members together, then the job. Return a problem for each process with an exit code other than 0."""
        with ThreadPoolExecutor(len(self._members)) as pool:
            ends = [pool.submit(member.terminate) for member in self._members]
            self._display.wait("the members to leave", lambda: all(end.done() for end in ends))
            codes = [end.result() for end in ends]
            jvms = psutil.Process(self._job.pid).children()
            end = pool.submit(self._job.terminate)
            self._display.wait("the share-group job to stop", end.done)
        self._display.wait("its JVM to stop", lambda: not any(jvm.is_running() for jvm in jvms))
        SPARK.keep()
        names = [member.log_path.stem for member in self._members]
        ended = dict(zip([*names, self._job.log_path.stem], [*codes, end.result()], strict=True))
        return [f"{name} exited with code {code}" for name, code in ended.items() if code]

    def _show_by_sql(self) -> None:
        for title, statement in QUERIES.items():
            self._console.print(f"\n[bold]{title}[/bold]\n[dim]{statement}[/dim]", highlight=False, soft_wrap=True)
            self._console.print(to_table(run_query(str(TABLES), statement)))

    def _verdict(self, problems: list[str]) -> int:
        for problem in problems:
            self._console.print(f"[red]{problem}[/red]", highlight=False, soft_wrap=True)
        if problems:
            self._display.print_line("the demo failed")
            return 1
        self._display.print_line(
            f"each of the {self._records:,} records reached exactly one final state; none was lost"
        )
        where = {"tables": TABLES.relative_to(Path.cwd()), "home": HOME.relative_to(Path.cwd())}
        self._console.print(NEXT.format(**where), highlight=False, soft_wrap=True, markup=False)
        return 0


def _progress() -> Progress:
    try:
        return progress(str(TABLES), GROUP_ID)
    except TableNotFoundError:
        return Progress()


def _acquired_by_spark() -> int | None:
    """Return how many records the Spark member has acquired; None before it has joined."""
    rows = run_query(str(TABLES), SPARK_ACQUIRED).to_pylist()
    return rows[0]["records"] if rows else None


def main() -> int:
    """Run the demo and return the exit code."""
    parser = CommandParser(description="A share group at work: broker, job, members, a kill, and the audit.")
    parser.add_argument("--records", type=int, default=40_000, help="number of records (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return Demo(arguments.records).run()
    except (LoggedProcessError, EmbeddedKafkaError, JarsError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # the context managers have stopped all processes


def _interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
