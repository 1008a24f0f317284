"""Tables and checkpoints on S3: a real S3 server, which checks signatures, and which is away at times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sharegroup.errors import ErrorCode
from sharegroup.tables import read_group
from sharegroup.testkit.gateway_process import GatewayProcess
from sharegroup.testkit.local_spark import local_settings
from sharegroup.testkit.raw_member import RawMember
from sharegroup.testkit.s3_server import S3Server
from sharegroup.testkit.share_group_job import QUERY_FAILED, ShareGroupJobRun
from sharegroup.testkit.submitted_job import SubmittedJob
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.integration.share_members import Group, keys
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer

    from sharegroup.testkit.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

BUCKET = "lake"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def job(s3: S3Server, kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[ShareGroupJobRun]:
    """Its secrets must not get into a log."""
    where = {
        "tables.path": f"s3a://{BUCKET}/{tmp_path.name}/tables",
        "checkpoint.path": f"s3://{BUCKET}/{tmp_path.name}/checkpoint",
        "tables.storage.options": s3.options,
    }
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix=f"{tmp_path.name}-", job=where) as run:
        run.start()
        yield run
        assert s3.options["AWS_SECRET_ACCESS_KEY"] not in run.log_path.read_text()


@pytest.mark.timeout(600)
def test_a_job_on_s3_outlives_its_death_and_that_of_the_store(
    job: ShareGroupJobRun, s3: S3Server, new_topic: NewTopic, tmp_path: Path
) -> None:
    job.await_running()
    topic = new_topic(1, 20)
    member = RawMember(job.client(), job.new_group())
    member.join({topic: 1})
    assert member.fetch(topic, 0, 12).acquired == (AcquiredRange(0, 11, 1),)

    job.process.kill()
    assert any(key.startswith(f"{tmp_path.name}/checkpoint/share_partition/commits/") for key in s3.objects(BUCKET))
    job.start()
    assert member.acknowledge(topic, 0, [(0, 3, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE

    s3.kill()
    request = member.acknowledge_request(topic, 0, [(4, 7, AcknowledgeType.ACCEPT)])
    member.client.send(request)
    job.await_log(QUERY_FAILED)
    s3.start()
    assert member.client.response(request.id).error_code == ErrorCode.NONE
    assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(12, 19, 1),)
    assert job.process.terminate() == 0

    s3.remove(BUCKET, f"{tmp_path.name}/checkpoint")
    job.start()
    assert member.acknowledge(topic, 0, [(8, 19, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
    assert job.process.terminate() == 0


@pytest.mark.timeout(600)
def test_a_gateway_reads_from_s3_and_a_spark_member_writes_to_it(
    job: ShareGroupJobRun, s3: S3Server, new_topic: NewTopic, tmp_path: Path
) -> None:
    job.await_running()
    topic, group_id = new_topic(2, 30), job.new_group()
    names = ("share_group_requests", "share_partition_requests", "share_group_responses")
    sink = f"s3a://{BUCKET}/{tmp_path.name}/sink"
    given = {"AWS_ENDPOINT_URL", "AWS_REGION"}
    member = SubmittedJob(
        "jobs/consume_acquired_batches.py",
        [
            *("--bootstrap-servers", job.bootstrap_servers, "--group-id", group_id, "--topics", topic),
            *("--sink", sink, "--checkpoint", f"s3a://{BUCKET}/{tmp_path.name}/member"),
            *(f"--{name.replace('_', '-')}-topic={tmp_path.name}-{name}" for name in names),
        ],
        tmp_path / "member.log",
        conf={
            **local_settings([sink]),
            "spark.hadoop.fs.s3a.endpoint": s3.options["AWS_ENDPOINT_URL"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.endpoint.region": s3.options["AWS_REGION"],
        },
        environment={name: value for name, value in s3.options.items() if name not in given},
    )
    gateway = GatewayProcess(job.config_path, tmp_path / "gateway.log")
    with gateway, member:
        clients = Group(job, gateway.bootstrap_servers, new_topic(1, 5))
        with clients.member() as consumer:
            consumer.poll_until(lambda: consumer.accepted == keys(1, 5))
        wait_until(lambda: _rows(sink, s3) == 60, "60 records are in the sink")
        assert member.terminate() == 0
        described = read_group(job.config.job.tables_path, group_id, s3.options)
        assert described is not None
        assert {row.topic for row in described.share_partitions} == {topic}
    assert s3.options["AWS_SECRET_ACCESS_KEY"] not in (tmp_path / "gateway.log").read_text()


def _rows(sink: str, s3: S3Server) -> int:
    return DeltaTable(sink, storage_options=s3.options).count() if DeltaTable.is_deltatable(sink, s3.options) else 0
