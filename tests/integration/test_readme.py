"""The README: its lines are run as they are typed, in a directory of their own, and it stays short."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from kafka import KafkaConsumer, TopicPartition

from sharegroup.spark.jars import IVY_XML
from sharegroup.testing.delivery_audit import audit, progress
from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import HOST
from tests.harness.submitted_job import ROOT
from tests.integration.ports import named_ports
from tests.integration.waiting import wait_until

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 180
PACKAGES = re.findall(r"--packages (\S+:\S+)", (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_packages_are_those_that_are_tested() -> None:
    ivy = IVY_XML.read_text(encoding="utf-8")
    assert PACKAGES
    for package in {package for listed in PACKAGES for package in listed.split(",")}:
        organisation, name, revision = package.split(":")
        assert re.search(rf'org="{organisation}" name="{name}" rev="{revision}"', ivy), package


def test_the_commands_are_in_the_environment_that_is_activated_first() -> None:
    bash, shell = blocks("bash")[0], blocks("sh")[0]
    assert bash.startswith(". .venv/bin/activate\n")
    commands = re.findall(r"^(\S+) .*&$", bash + shell, re.MULTILINE)
    assert commands == ["sharegroup", "sharegroup", "sharegroup"]
    for command in ("activate", *commands):
        assert (Path(sys.prefix) / "bin" / command).is_file(), command


def test_the_page_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


TOPIC, GROUP, TABLES = "orders", "billing", "data/tables"
#: What a reader does between the lines: waits until all is billed, and looks at it; writes one more record.
SESSION = """
from sharegroup.testing.delivery_audit import progress

exec(compile({member!r}, "README.md", "exec"))
while progress({tables!r}, {group!r}).finished < 1_000:
    assert not query.await_termination(0.2), "the query ended"
query.stop()
exec(compile({queries!r}, "README.md", "exec"))
print("billed", spark.read.format("delta").load("data/billed").count())
spark.stop()
"""
CLIENT = """
import warnings
from confluent_kafka import Producer

warnings.simplefilter("ignore")  # confluent-kafka calls its ShareConsumer a preview
producer = Producer({{"bootstrap.servers": "127.0.0.1:9192"}})
producer.produce({topic!r}, b"through the gateway")
assert producer.flush(60) == 0
exec(compile({client!r}, "README.md", "exec"))
"""


class Typed(LoggedProcess):
    """Lines in a shell of their own, whose last command goes on in the background; `exit` has how that one ended."""

    def __init__(self, what: str, lines: str, directory: Path) -> None:
        self._exit = directory / f"{what}.exit"
        self._directory = directory
        script = f"{lines}\nwait $!; echo $? >{shlex.quote(str(self._exit))}; wait"
        environment = {"PYTHONPATH": str(ROOT)}
        log = directory / f"{what}.log"
        super().__init__(what, ["bash", "-c", script], log, environment=environment, working_directory=directory)

    def tell_to_end(self, command: str) -> None:
        """SIGTERM for one of its commands."""
        (found,) = [p for p in psutil.Process(self.pid).children() if command in " ".join(p.cmdline())]
        found.send_signal(signal.SIGTERM)

    def exit_code_of_last(self) -> int:
        """How the last command ended; waits until it has."""
        wait_until(lambda: self._exit.exists() and bool(self._exit.read_text()), "the last command ends")
        return int(self._exit.read_text())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory like a clone after set-up, but for what is written there."""
    for name in ("jobs", "conf", "sharegroup"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def python(text: str, directory: Path) -> str:
    """What these lines print, as a program of the environment that the shell's lines activate."""
    (directory / "lines.py").write_text(text)
    command = [sys.executable, "lines.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-5_000:]
    return ended.stdout


def test_the_twenty_lines_run(checkout: Path) -> None:
    """Broker, configuration, job, member and SQL, gateway and client; every record is finished, as the handler said."""
    (shell,), (gateway,) = blocks("bash"), blocks("sh")
    member, queries, client = blocks("python")
    patient = client.replace("timeout=30", "timeout=600")  # for a busy machine
    assert patient != client
    tables = str(checkout / TABLES)
    with named_ports(9092, 9191, 9192, 9193), Typed("job", shell, checkout) as job:
        job.await_log("the share-group job is running", timeout_s=300)
        said = python(SESSION.format(member=member, queries=queries, tables=TABLES, group=GROUP), checkout)
        assert "ACKNOWLEDGED" in said
        assert "billed 1000\n" in said
        with Typed("gateway", f". .venv/bin/activate\n{gateway}", checkout) as served:
            served.await_log("gateway: listening")
            assert python(CLIENT.format(topic=TOPIC, client=patient), checkout) == "1 b'through the gateway'\n"
            # SIGTERM stops the job before a batch that has not begun, and that one may have the acknowledgement.
            wait_until(lambda: progress(tables, GROUP).finished == 1_001, "the last is finished")
            served.tell_to_end("gateway")
            assert served.exit_code_of_last() == 0
        ends = log_ends()
        job.tell_to_end("sharegroup.spark.job.run_job")
        assert job.exit_code_of_last() == 0
        job.tell_to_end("sharegroup broker")
        job.wait()
    assert sum(ends.values()) == 1_001
    assert audit(tables, GROUP, ends) == []
    assert dict(progress(tables, GROUP).outcomes) == {"accepted": 901, "rejected": 100}
    check_log(job.log_path.read_text())


def log_ends() -> dict[tuple[str, int], int]:
    """Where the topic ends, by the broker."""
    with closing(KafkaConsumer(bootstrap_servers=f"{HOST}:9092")) as consumer:
        ends = consumer.end_offsets([TopicPartition(TOPIC, partition) for partition in range(2)])
    return {(TOPIC, partition.partition): end for partition, end in ends.items()}


def check_log(log: str) -> None:
    """What happened, for people, and nothing that Spark says of each batch."""
    assert len(re.findall(rf"group {GROUP}: member \S+ joined", log)) == 2
    assert len(re.findall(rf"group {GROUP}: member \S+ left", log)) == 2
    assert f"group {GROUP}: initializing topic {TOPIC} (id " in log
    assert "made progress" not in log
    assert "Traceback" not in log
    assert len(log) < 10_000
