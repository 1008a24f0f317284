"""Each program of examples/ runs with the command that its comment shows, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sharegroup.spark.jars import jars, java
from sharegroup.testing.delivery_audit import progress
from sharegroup.testing.logged_process import LoggedProcess
from tests.harness.submitted_job import ROOT
from tests.integration.share_members import Group
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from kafka import KafkaProducer

    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

EXAMPLES = ROOT / "examples"
#: Options for the outer pytest are not for the pytest of an example.
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}


def run(*command: str) -> str:
    """Run a program to its end and return its standard output."""
    ended = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def run_python(name: str, *arguments: str) -> str:
    """Run a Python example to its end and return its standard output."""
    return run(sys.executable, "-W", "ignore", str(EXAMPLES / name), *arguments)


@pytest.fixture
def group(gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic) -> Group:
    """A group with a topic of 2 partitions and 50 records, none of which is a number."""
    return Group(share_group_job, gateway.bootstrap_servers, new_topic(2, 25))


@pytest.fixture
def finished_group(gateway: GatewayProcess, group: Group) -> Group:
    """A group whose 50 records are accepted and whose member has left."""
    with group.member() as member:
        member.poll_until(lambda: len(member.accepted) == 50)
    group.await_finished()
    wait_until(lambda: group.member_count() == 0, "the member has left")
    return group


def test_the_page_lists_each_example() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    programs = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert len(programs) == 7
    assert {name for name in programs if f"[{name}]({name})" in page} == programs
    assert all(f"examples/{name}" in (EXAMPLES / name).read_text(encoding="utf-8") for name in programs)


def test_share_consumer(gateway: GatewayProcess, group: Group, producer: KafkaProducer) -> None:
    for number in range(30):
        producer.send(group.topic, b"%d" % number, partition=number % 2)
    producer.flush()
    printed = run_python("share_consumer.py", gateway.bootstrap_servers, group.id, group.topic, "80")
    assert len(printed.splitlines()) == 30
    assert group.await_finished().outcomes == {"accepted": 30, "rejected": 50}


def test_handler_loop(gateway: GatewayProcess, group: Group, producer: KafkaProducer, tmp_path: Path) -> None:
    for number in range(30):
        producer.send(group.topic, b"%d" % number, partition=number % 2)
    producer.flush()
    command = [sys.executable, str(EXAMPLES / "handler_loop.py"), gateway.bootstrap_servers, group.id, group.topic]
    log_path = tmp_path / "handler_loop.log"
    with LoggedProcess("the handler loop", command, log_path, environment=ENVIRONMENT) as program:
        wait_until(lambda: len(numbers_in(log_path)) == 30, "the numbers are handled", PATIENCE_S)
        wait_until(lambda: log_path.read_text().count(" was rejected: ") == 50, "the others are rejected", PATIENCE_S)
        assert program.terminate() == 0, program.log_tail()
    assert group.await_finished().outcomes == {"accepted": 30, "rejected": 50}


def numbers_in(log_path: Path) -> set[str]:
    """Return the numbers that the example has printed."""
    return set(re.findall(r"^partition \d, offset \d+: (\d+)$", log_path.read_text(), re.MULTILINE))


def test_handler_tests() -> None:
    printed = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(EXAMPLES / "handler_tests.py"))
    assert "5 passed" in printed


def test_java_client(gateway: GatewayProcess, group: Group) -> None:
    modules = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        pytest.skip("this Java is no JDK, and cannot run a source file")
    class_path = os.pathsep.join(map(str, jars("tools")))
    program = str(EXAMPLES / "ShareClient.java")
    printed = run(java(), "-cp", class_path, program, gateway.bootstrap_servers, group.id, group.topic, "50")
    assert printed.count("delivery 1: record ") == 50
    assert group.await_finished().outcomes == {"accepted": 50}


@pytest.mark.thorough
def test_spark_member(share_group_job: ShareGroupJobRun, group: Group, tmp_path: Path) -> None:
    tables, sink = str(share_group_job.tables_path), str(tmp_path / "billed")
    arguments = (share_group_job.bootstrap_servers, group.id, group.topic, sink, str(tmp_path / "member-1"))
    command = [sys.executable, str(EXAMPLES / "spark_member.py"), *arguments]
    log_path = tmp_path / "member.log"
    with LoggedProcess("the member", command, log_path, environment=ENVIRONMENT, working_directory=tmp_path) as member:
        member.await_log("is running", timeout_s=PATIENCE_S)
        wait_until(lambda: progress(tables, group.id).finished == 50, "all is finished", PATIENCE_S)
        assert member.terminate() == 0
    assert group.await_finished().outcomes == {"accepted": 50}


def test_outcomes(share_group_job: ShareGroupJobRun, finished_group: Group) -> None:
    statement = (EXAMPLES / "outcomes.sql").read_text(encoding="utf-8")
    printed = run(sys.executable, "-m", "sharegroup.cli", "sql", str(share_group_job.tables_path), statement)
    assert "ACKNOWLEDGED" in printed


def test_administer(gateway: GatewayProcess, finished_group: Group) -> None:
    lines = run_python("administer.py", gateway.bootstrap_servers, finished_group.id).splitlines()
    assert lines == [
        f"group {finished_group.id}: state Empty, 0 members",
        f"{finished_group.topic}-0: start offset 25, lag 0",
        f"{finished_group.topic}-1: start offset 25, lag 0",
        "share.delivery.count.limit = 3",
        "reset 2 of 2 share-partitions",
    ]
