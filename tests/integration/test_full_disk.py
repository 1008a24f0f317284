"""The disk of the tables and checkpoints is full: the job waits until there is space, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.storage.schemas import ALL_TABLES
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import QUERY_FAILED, ShareGroupJobRun
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

_MIB = 1_048_576


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    if os.geteuid():
        pytest.skip("only root may mount a file system")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk to the last byte; the file to remove."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (_MIB, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


_WAITS = "the job cannot start because of an outage"
_GOES_ON = "the start of the job continues"


def test_a_full_disk_is_outlasted(kafka: EmbeddedKafka, new_topic: NewTopic, small_disk: Path, tmp_path: Path) -> None:
    where = {"tables.path": str(small_disk / "tables"), "checkpoint.path": str(small_disk / "checkpoint")}
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="full-disk-", job=where, master="local[1]") as job:
        job.start()
        job.await_running()
        topic = new_topic(1, 20)
        member = RawMember(job.client(), job.new_group())
        member.join({topic: 1})
        assert member.fetch(topic, 0, 12).acquired == (AcquiredRange(0, 11, 1),)

        filler = fill(small_disk)
        request = member.acknowledge_request(topic, 0, [(0, 7, AcknowledgeType.ACCEPT)])
        member.client.send(request)
        # More often than a query is started again after failures that are no outage would take minutes: some do.
        wait_until(lambda: job.log.count(QUERY_FAILED) >= 4, "the query has failed and was started again")
        assert job.process.exit_code is None
        filler.unlink()

        assert member.client.await_response(request.id).error_code == ErrorCode.NONE
        assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(12, 19, 1),)
        assert job.process.terminate() == 0
        assert not [spec.name for spec in ALL_TABLES if list((small_disk / "tables" / spec.name).rglob("*.torn"))]

        job.start()
        assert member.acknowledge(topic, 0, [(8, 11, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
        assert job.process.terminate() == 0


def test_a_job_that_starts_on_a_full_disk_waits(
    kafka: EmbeddedKafka, new_topic: NewTopic, small_disk: Path, tmp_path: Path
) -> None:
    where = {"tables.path": str(small_disk / "tables"), "checkpoint.path": str(small_disk / "checkpoint")}
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="full-start-", job=where, master="local[1]") as job:
        filler = fill(small_disk)
        job.start()
        job.await_log(_WAITS)
        filler.unlink()
        job.await_running()
        assert job.log.count(_WAITS) == job.log.count(_GOES_ON) == 1
        topic = new_topic(1, 20)
        member = RawMember(job.client(), job.new_group())
        member.join({topic: 1})
        assert member.fetch(topic, 0, 12).acquired == (AcquiredRange(0, 11, 1),)
        assert job.process.terminate() == 0

        filler = fill(small_disk)
        job.start()
        job.await_log(_WAITS)
        request = member.acknowledge_request(topic, 0, [(0, 11, AcknowledgeType.ACCEPT)])
        member.client.send(request)
        filler.unlink()
        assert member.client.await_response(request.id).error_code == ErrorCode.NONE
        assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(12, 19, 1),)
        assert job.process.terminate() == 0

        filler = fill(small_disk)
        job.start()
        job.await_log(_WAITS)
        assert job.process.terminate() == 0, "a job that waits for its start can be stopped"
        filler.unlink()
