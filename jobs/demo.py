"""A share group at work, on this machine: `make demo`.

A broker, a topic with 2 partitions and 40,000 records, the share-group job, and four members, more than there are
partitions: three that know nothing of this project, confluent-kafka's unmodified ShareConsumer, which come through the
gateway, and a Spark job. Half-way the share-group job is killed with SIGKILL and started again. In the end SQL over the
Delta tables tells what became of the records, and an audit goes through them one by one.

Exit 0: every record reached exactly one final state and none was lost. Exit 1: something is wrong, and is told.
Everything that the demo writes is in var/demo, and stays there to be looked at.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from deltalake.exceptions import TableNotFoundError
from rich.console import Console

from sharegroup.testkit.delivery_audit import Progress, audit, progress
from sharegroup.testkit.demo.display import Display
from sharegroup.testkit.demo.parts import (
    GROUP_ID,
    HOME,
    PARTITIONS,
    RUNNING,
    TABLES,
    TOPIC,
    KafkaClient,
    broker,
    last_words,
    produce,
    share_group_job,
    spark_member,
    write_config,
)
from sharegroup.testkit.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError
from sharegroup.testkit.gateway_process import GatewayProcess
from sharegroup.testkit.jars import JarsError
from sharegroup.testkit.logged_process import LoggedProcess, LoggedProcessError
from sharegroup.testkit.table_sql import query, shown

CLIENTS = 3
REFRESH_S = 1.0
#: From the members' start, ten times what it takes on an idle machine.
PATIENCE_S = 600.0
QUERIES = {
    "How often the finished records were delivered, and how they ended": """\
SELECT delivery_count AS deliveries, to_state, cause, sum(last_offset - first_offset + 1) AS records
FROM delivery_log WHERE to_state IN ('ACKNOWLEDGED', 'ARCHIVED') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "What the members did": """\
SELECT member_id, count(DISTINCT partition) AS partitions, sum(last_offset - first_offset + 1) AS records_acquired
FROM delivery_log WHERE cause = 'fetch' GROUP BY member_id ORDER BY 3 DESC""",
    "Who led: the killed job, and the one after it": """\
SELECT query, leader_epoch, application_id, time FROM share_group_job ORDER BY time""",
}
NEXT = """
To try next, on the tables that are left in {tables}:
  .venv/bin/python -m sharegroup.testkit.table_sql {tables} "SELECT time, to_state, cause, delivery_count, member_id \
FROM delivery_log WHERE partition = 0 AND 5000 BETWEEN first_offset AND last_offset ORDER BY time"
  .venv/bin/python -m sharegroup.testkit.table_sql {tables}
  cat {home}/job.log
They show the way of a record that nobody got done with, what else there is to ask for, and the job's log."""


class Demo:
    """The parts, in the order in which `run` starts them; what was started ends with it, whatever happens."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._console = Console(width=None if sys.stdout.isatty() else 140)
        self._display = Display(self._console, f"share group {GROUP_ID} on topic {TOPIC}", records)
        self._log_end_offsets = {(TOPIC, p): len(range(p, records, PARTITIONS)) for p in range(PARTITIONS)}

    def run(self) -> int:
        """The demo; returns the exit code."""
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        with ExitStack() as stack:
            kafka = broker()
            write_config(kafka.bootstrap_servers)
            # Both take their time, and the job waits for its broker.
            starting = stack.enter_context(ThreadPoolExecutor(1)).submit(kafka.start)
            stack.callback(kafka.stop)
            job = stack.enter_context(share_group_job())
            self._display.wait("a Kafka broker", starting.done)
            starting.result()
            clients = self._clients(self._prepared(kafka, stack), stack)
            self._await(job, RUNNING, "the share-group job, which starts Spark")
            members = [*clients, self._spark_member(kafka, clients[0], job, stack)]
            with self._display.on():
                problems = self._watch(job, members)
            problems += self._end(job, members)
        self._tell_by_sql()
        acknowledged = sum((client.did() for client in members if isinstance(client, KafkaClient)), Counter())
        counts = ", ".join(f"{what} {count:,}" for what, count in sorted(acknowledged.items())) or "nothing"
        self._console.print(f"\nThe unmodified ShareConsumers acknowledged: {counts}", highlight=False)
        return self._verdict(problems + audit(str(TABLES), GROUP_ID, self._log_end_offsets))

    def _prepared(self, kafka: EmbeddedKafka, stack: ExitStack) -> GatewayProcess:
        """Records to read, and a gateway to read them through."""
        self._display.say(f"a Kafka broker on {kafka.bootstrap_servers}")
        kafka.create_topic(TOPIC, partitions=PARTITIONS)
        produce(kafka.bootstrap_servers, self._records)
        self._display.say(f"{self._records:,} records in topic {TOPIC}, {PARTITIONS} partitions")
        gateway = stack.enter_context(GatewayProcess(HOME / "share_group.yaml", HOME / "gateway.log"))
        self._display.say(f"a gateway on {gateway.bootstrap_servers}")
        return gateway

    def _clients(self, gateway: GatewayProcess, stack: ExitStack) -> list[KafkaClient]:
        """The Kafka clients; they wait for the job, as they do whenever it is away."""
        self._display.say(f"starting {CLIENTS} unmodified Kafka clients at the gateway")
        numbers = range(1, CLIENTS + 1)
        return [stack.enter_context(KafkaClient(gateway.bootstrap_servers, number)) for number in numbers]

    def _spark_member(
        self, kafka: EmbeddedKafka, first: KafkaClient, job: LoggedProcess, stack: ExitStack
    ) -> LoggedProcess:
        """The Spark job, when the first records are there: it needs time to start, and would keep them waiting."""
        self._display.say("the share-group job runs")
        said = job.log_path
        self._display.wait("the first records", lambda: first.has_logged(KafkaClient.FIRST), lambda: last_words(said))
        self._display.say(f"delivered: {first.await_log(KafkaClient.FIRST).strip()}")
        self._display.say("starting a fourth member, a Spark job")
        return stack.enter_context(spark_member(kafka.bootstrap_servers))

    def _await(self, process: LoggedProcess, text: str, what: str, since: int = 0) -> None:
        self._display.wait(what, lambda: process.has_logged(text, since), lambda: last_words(process.log_path))

    def _watch(self, job: LoggedProcess, members: list[LoggedProcess]) -> list[str]:
        """Until every record is finished, with the kill half-way; the problem when patience ends first."""
        deadline = time.monotonic() + PATIENCE_S
        was_killed = False
        while time.monotonic() < deadline:
            now = _progress()
            self._display.show(now, self._log_end_offsets)
            if now.finished >= self._records and now.start_offsets == self._log_end_offsets:
                return []
            if now.finished >= self._records / 2 and not was_killed:
                self._kill_and_restart(job)
                was_killed = True
            for process in (job, *members):
                process.check_alive()
            time.sleep(REFRESH_S)  # a display's rhythm, not a condition
        return [f"not finished after {PATIENCE_S:.0f} s; logs: {HOME}/*.log"]

    def _kill_and_restart(self, job: LoggedProcess) -> None:
        seen = job.log_path.stat().st_size
        job.kill()
        self._display.say("the share-group job was killed (SIGKILL); starting it again; the members go on")
        begin = time.monotonic()
        job.start()
        self._await(job, RUNNING, "the share-group job to come back", seen)
        self._display.say(f"the share-group job runs again, after {time.monotonic() - begin:.1f} s")

    def _end(self, job: LoggedProcess, members: list[LoggedProcess]) -> list[str]:
        """Members first, all at once, for they leave the group; what did not end well."""
        *_, spark = members
        self._await(spark, "the members are running", "the Spark job, to end it in order")
        with ThreadPoolExecutor(len(members)) as pool:
            ends = [pool.submit(member.terminate) for member in members]
            self._display.wait("the members to leave", lambda: all(end.done() for end in ends))
            codes = [end.result() for end in ends]
            end = pool.submit(job.terminate)
            self._display.wait("the share-group job to end", end.done)
        names = [member.log_path.stem for member in members]
        ended = dict(zip([*names, job.log_path.stem], [*codes, end.result()], strict=True))
        return [f"{name} ended with exit code {code}" for name, code in ended.items() if code]

    def _tell_by_sql(self) -> None:
        for title, statement in QUERIES.items():
            self._console.print(f"\n[bold]{title}[/bold]\n[dim]{statement}[/dim]", highlight=False, soft_wrap=True)
            self._console.print(shown(query(str(TABLES), statement)))

    def _verdict(self, problems: list[str]) -> int:
        for problem in problems:
            self._console.print(f"[red]{problem}[/red]", highlight=False, soft_wrap=True)
        if problems:
            self._display.say("something is wrong")
            return 1
        self._display.say(f"each of the {self._records:,} records reached exactly one final state; none was lost")
        where = {"tables": TABLES.relative_to(Path.cwd()), "home": HOME.relative_to(Path.cwd())}
        self._console.print(NEXT.format(**where), highlight=False, soft_wrap=True, markup=False)
        return 0


def _progress() -> Progress:
    try:
        return progress(str(TABLES), GROUP_ID)
    except TableNotFoundError:
        return Progress()


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description="A share group at work: broker, job, members, a kill, and the audit.")
    parser.add_argument("--records", type=int, default=40_000, help="how many (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return Demo(arguments.records).run()
    except (LoggedProcessError, EmbeddedKafkaError, JarsError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # the blocks have ended what was started


def _interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
