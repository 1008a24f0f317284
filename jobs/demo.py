"""A share group at work, on this machine: `make demo`.

A broker, a topic with 2 partitions and 200,000 records, the share-group job, and four members, more than there are
partitions: three in a Spark job of their own, and one that knows nothing of this project, confluent-kafka's unmodified
ShareConsumer, that comes through the gateway. Half-way the share-group job is killed with SIGKILL and started again. In
the end SQL over the Delta tables tells what became of the records, and an audit goes through them one by one.

Exit 0: every record reached exactly one final state and none was lost. Exit 1: something is wrong, and is told.
Everything that the demo writes is in var/demo, and stays there to be looked at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sharegroup.testkit.delivery_audit import Progress, TopicPartition, audit, progress
from sharegroup.testkit.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError
from sharegroup.testkit.gateway_process import GatewayProcess
from sharegroup.testkit.jars import JarsError, jars
from sharegroup.testkit.submitted_job import ROOT, SubmittedJob, SubmittedJobError

HOME = ROOT / "var" / "demo"
TABLES = HOME / "tables"
GROUP_ID, TOPIC, PARTITIONS, MEMBERS = "demo", "orders", 2, 3  # and a Kafka client
REFRESH_S = 2.0
#: From the members' start, ten times what it takes on an idle machine.
PATIENCE_S = 900.0
RUNNING = "the share-group job is running"

CONFIG = f"""\
job:
  bootstrap.servers: {{bootstrap_servers}}
  tables.path: {TABLES}
  checkpoint.path: {HOME / "checkpoint"}
group:
  group.share.max.partition.max.record.locks: 100000
groups:
  {GROUP_ID}:
    share.auto.offset.reset: earliest
    share.partition.max.record.locks: 100000
"""

QUERIES = {
    "How often the finished records were delivered, and how they ended": """\
SELECT delivery_count AS deliveries, to_state, cause, sum(last_offset - first_offset + 1) AS records
FROM delivery_log
WHERE to_state IN ('ACKNOWLEDGED', 'ARCHIVED')
GROUP BY ALL ORDER BY ALL""",
    "What the members did": """\
SELECT member_id, count(DISTINCT partition) AS partitions, sum(last_offset - first_offset + 1) AS records_acquired
FROM delivery_log
WHERE cause = 'fetch'
GROUP BY ALL ORDER BY ALL""",
    "Who led": "SELECT query, leader_epoch, application_id, time FROM share_group_job ORDER BY time",
    "Where the group stands": """\
SELECT topic, partition, start_offset, log_end_offset, log_end_offset - start_offset - delivery_complete_count AS lag
FROM share_group_offsets JOIN log_end_offsets USING (topic, partition)
ORDER BY ALL""",
    "What is in flight": """\
SELECT topic, partition, first_offset, last_offset, state, delivery_count, member_id, lock_deadline
FROM in_flight ORDER BY ALL LIMIT 20""",
}


class Display:
    """A table that renews itself on a terminal, a line each time elsewhere."""

    def __init__(self, console: Console, records: int) -> None:
        self._console, self._records = console, records
        self._begin = time.monotonic()
        self._last = (self._begin, 0)
        self._live: Live | None = None
        self._shown: Progress | None = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """While this lasts, `show` renews the table in place."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def say(self, text: str) -> None:
        """A line that stays."""
        seconds = time.monotonic() - self._begin
        self._console.print(f"{seconds:6.1f} s  {text}", highlight=False, soft_wrap=True)

    def show(self, now: Progress, log_end_offsets: Mapping[TopicPartition, int]) -> None:
        """The state of things."""
        rate = self._rate(now.finished)
        deliveries = "  ".join(f"{count}x {records:,}" for count, records in sorted(now.deliveries.items())) or "-"
        outcomes = ", ".join(f"{what} {records:,}" for what, records in sorted(now.outcomes.items())) or "-"
        held = ", ".join(f"{records:,}" for _, records in sorted(now.acquired.items())) or "none"
        if self._live is None:
            if now == self._shown:
                return
            self._shown = now
            self.say(
                f"{now.finished:>7,} of {self._records:,} finished, {rate:>6,.0f} rec/s, "
                f"in flight {now.acquired.total():,}, lag {now.lag(log_end_offsets):,}, deliveries {deliveries}"
            )
            return
        table = Table(title=f"share group {GROUP_ID} on topic {TOPIC}", show_header=False, min_width=70)
        table.add_row("finished", f"{now.finished:,} of {self._records:,}   {outcomes}")
        table.add_row("throughput", f"{rate:,.0f} records/s")
        table.add_row("in flight", f"{now.acquired.total():,} acquired, by member: {held}; {now.available:,} available")
        table.add_row("lag", f"{now.lag(log_end_offsets):,}")
        table.add_row("delivered", f"{deliveries}   ({now.redelivered:,} redeliveries)")
        self._live.update(table, refresh=True)

    def _rate(self, finished: int) -> float:
        (then, before), now = self._last, time.monotonic()
        self._last = (now, finished)
        return (finished - before) / max(now - then, 1e-3)


class Demo:
    """The parts, in the order in which `run` starts them; `with` blocks end them, whatever happens."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._console = Console(width=None if sys.stdout.isatty() else 140)
        self._display = Display(self._console, records)
        self._log_end_offsets = {(TOPIC, p): len(range(p, records, PARTITIONS)) for p in range(PARTITIONS)}

    def run(self) -> int:
        """The demo; returns the exit code."""
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        with EmbeddedKafka() as kafka:
            self._display.say(f"a Kafka broker on {kafka.bootstrap_servers}")
            (HOME / "share_group.yaml").write_text(CONFIG.format(bootstrap_servers=kafka.bootstrap_servers))
            with self._job() as job, self._members(kafka) as members, self._gateway() as gateway:
                kafka.create_topic(TOPIC, partitions=PARTITIONS)
                produce(kafka.bootstrap_servers, self._records)
                self._display.say(f"{self._records:,} records in topic {TOPIC}, {PARTITIONS} partitions")
                job.await_log(RUNNING)
                self._display.say(f"the share-group job runs; starting {MEMBERS} members")
                client = self._kafka_client(gateway)
                self._display.say(f"an unmodified ShareConsumer beside them, on {gateway.bootstrap_servers} (gateway)")
                try:
                    members.await_log("the members are running")
                    with self._display.on():
                        is_done = self._watch(job, members)
                finally:
                    did = _ended(client)
                exit_codes = {
                    "the members": members.terminate(),
                    "the Kafka client": client.returncode,
                    "the share-group job": job.terminate(),
                }
            problems = [f"{who} ended with exit code {code}" for who, code in exit_codes.items() if code]
            if not is_done:
                problems.append(f"not finished after {PATIENCE_S:.0f} s; logs: {HOME}/*.log")
            self._tell_by_sql(kafka.bootstrap_servers)
            counts = ", ".join(f"{what} {count:,}" for what, count in sorted(did.items())) or "nothing"
            self._console.print(f"\nThe unmodified ShareConsumer acknowledged: {counts}", highlight=False)
        return self._verdict(problems + audit(str(TABLES), GROUP_ID, self._log_end_offsets))

    def _job(self) -> SubmittedJob:
        arguments = ["--config", str(HOME / "share_group.yaml")]
        return SubmittedJob("jobs/run_share_group.py", arguments, HOME / "job.log", working_directory=HOME)

    def _members(self, kafka: EmbeddedKafka) -> SubmittedJob:
        arguments = ["--bootstrap-servers", kafka.bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
        arguments += ["--checkpoint", str(HOME / "members"), "--members", str(MEMBERS)]
        return SubmittedJob("jobs/demo_consumers.py", arguments, HOME / "members.log", working_directory=HOME)

    def _gateway(self) -> GatewayProcess:
        return GatewayProcess(HOME / "share_group.yaml", HOME / "gateway.log")

    def _kafka_client(self, gateway: GatewayProcess) -> subprocess.Popen[str]:
        arguments = ["--bootstrap-servers", gateway.bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
        command = [sys.executable, str(ROOT / "jobs" / "demo_kafka_client.py"), *arguments]
        with (HOME / "kafka_client.log").open("w") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def _watch(self, job: SubmittedJob, members: SubmittedJob) -> bool:
        """Until every record is finished, with the kill half-way; False when patience ends first."""
        deadline = time.monotonic() + PATIENCE_S
        was_killed = False
        while time.monotonic() < deadline:
            now = progress(str(TABLES), GROUP_ID)
            self._display.show(now, self._log_end_offsets)
            if now.finished >= self._records and now.start_offsets == self._log_end_offsets:
                return True
            if now.finished >= self._records / 2 and not was_killed:
                self._kill_and_restart(job)
                was_killed = True
            for name, process in (("share-group job", job), ("members'", members)):
                if process.exit_code is not None:
                    raise SubmittedJobError(f"the {name} process ended with {process.exit_code}:\n{process.log_tail()}")
            time.sleep(REFRESH_S)  # a display's rhythm, not a condition
        return False

    def _kill_and_restart(self, job: SubmittedJob) -> None:
        seen = job.log_path.stat().st_size
        job.kill()
        self._display.say("the share-group job was killed (SIGKILL); starting it again; the members go on")
        begin = time.monotonic()
        job.start()
        job.await_log(RUNNING, since=seen)
        self._display.say(f"the share-group job runs again, after {time.monotonic() - begin:.1f} s")

    def _tell_by_sql(self, bootstrap_servers: str) -> None:
        from sharegroup.spark.session import build_session
        from sharegroup.spark.views import create_log_end_offsets, create_views  # Spark only now

        extra = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(HOME / "warehouse"),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={ROOT / 'conf' / 'log4j2.properties'}",
        }
        spark = build_session("demo", master="local[2]", jars=jars("spark"), extra=extra)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            create_views(spark, str(TABLES))
            create_log_end_offsets(spark, bootstrap_servers, [TOPIC])
            for title, statement in QUERIES.items():
                self._console.print(f"\n[bold]{title}[/bold]\n[dim]{statement}[/dim]", highlight=False, soft_wrap=True)
                found = spark.sql(statement)
                table = Table(*found.columns)
                for row in found.collect():
                    table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
                self._console.print(table if table.rows else "nothing")
        finally:
            spark.sparkContext.setLogLevel("OFF")  # tasks that are cut short say so at length
            spark.stop()

    def _verdict(self, problems: list[str]) -> int:
        for problem in problems:
            self._console.print(f"[red]{problem}[/red]", highlight=False, soft_wrap=True)
        if problems:
            self._display.say("something is wrong")
            return 1
        self._display.say(f"each of the {self._records:,} records reached exactly one final state; none was lost")
        self._console.print(f"The tables are in {TABLES}, the logs beside them.", highlight=False, soft_wrap=True)
        return 0


def _ended(client: subprocess.Popen[str]) -> dict[str, int]:
    """Have the client end, and what it did by its own count."""
    client.terminate()
    try:
        output, _ = client.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        client.kill()
        output, _ = client.communicate()
    lines = output.splitlines()
    did: dict[str, int] = json.loads(lines[-1]) if lines else {}
    return did


def produce(bootstrap_servers: str, records: int) -> None:
    """Write the records, numbered, to the partitions in turn; RuntimeError if the broker does not take them all."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, partition=number % PARTITIONS, key=b"%d" % number, value=b"order %d" % number)
                break
            except BufferError:  # its queue holds 100,000 records, and a quick machine fills it before the broker reads
                producer.poll(0.1)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records could not be produced")


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description="A share group at work: broker, job, members, a kill, and the audit.")
    parser.add_argument("--records", type=int, default=200_000, help="how many (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return Demo(arguments.records).run()
    except (SubmittedJobError, EmbeddedKafkaError, JarsError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # the blocks have ended what was started


def _interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
