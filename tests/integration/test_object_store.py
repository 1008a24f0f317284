"""Tables and checkpoints on S3: a real S3 server, which checks signatures, and which is away at times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient

from sharegroup.config.keys.storage_options import hadoop_properties
from sharegroup.errors import ErrorCode
from sharegroup.spark.local_spark import local_settings
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import QUERY_FAILED, ShareGroupJobRun
from tests.harness.submitted_job import SubmittedJob
from tests.integration.s3_server import S3Server
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.thorough

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
    prefix = f"{tmp_path.name}-"
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix=prefix, job=where, master="local[1]") as run:
        run.start()
        yield run
        assert s3.options["AWS_SECRET_ACCESS_KEY"] not in run.log_path.read_text()


def test_a_job_on_s3_serves_comes_back_and_outlasts_the_store(
    job: ShareGroupJobRun, s3: S3Server, new_topic: NewTopic, tmp_path: Path
) -> None:
    job.await_running()
    topic = new_topic(1, 20)
    member = RawMember(job.client(), job.new_group())
    member.join({topic: 1})
    assert member.fetch(topic, 0, 12).acquired == (AcquiredRange(0, 11, 1),)
    clients_come_and_go(job, s3, new_topic, tmp_path)

    # One query has its checkpoint, the other one only its tables.
    job.process.kill()
    s3.remove(BUCKET, f"{tmp_path.name}/checkpoint/group_coordinator")
    assert any(key.startswith(f"{tmp_path.name}/checkpoint/share_partition/commits/") for key in s3.objects(BUCKET))
    job.start()
    assert member.acknowledge(topic, 0, [(0, 3, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
    member.join({topic: 1})

    s3.kill()
    request = member.acknowledge_request(topic, 0, [(4, 7, AcknowledgeType.ACCEPT)])
    member.client.send(request)
    job.await_log(QUERY_FAILED)
    s3.start()
    assert member.client.await_response(request.id).error_code == ErrorCode.NONE
    assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(12, 19, 1),)
    assert job.process.terminate() == 0


def clients_come_and_go(job: ShareGroupJobRun, s3: S3Server, new_topic: NewTopic, tmp_path: Path) -> None:
    """A member that writes to S3 with Spark, which has its credentials from the environment, and a client of a gateway,
    which reads the tables there."""
    topic, group_id, names = new_topic(2, 30), job.new_group(), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    sink = f"s3a://{BUCKET}/{tmp_path.name}/sink"
    arguments = {
        "bootstrap-servers": job.bootstrap_servers,
        "group-id": group_id,
        "topics": topic,
        "sink": sink,
        "checkpoint": f"s3a://{BUCKET}/{tmp_path.name}/member",
        "share-group-requests-topic": job.config.job.group_requests_topic,
        "share-partition-requests-topic": job.config.job.partition_requests_topic,
        "share-group-responses-topic": job.config.job.responses_topic,
    }
    properties = {name: value for name, value in hadoop_properties(s3.options).items() if not name.endswith(".key")}
    member = SubmittedJob(
        "jobs/consume_acquired_batches.py",
        [f"--{name}={value}" for name, value in arguments.items()],
        tmp_path / "member.log",
        master="local[1]",
        conf=local_settings([sink]) | {f"spark.hadoop.{name}": value for name, value in properties.items()},
        environment={name: s3.options[name] for name in names},
    )
    with GatewayProcess(job.config_path, tmp_path / "gateway.log") as gateway, member:
        admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap_servers)
        wait_until(lambda: any(group["group_id"] == group_id for group in admin.list_groups()), "the group is listed")
        admin.close()
        wait_until(lambda: rows_of(sink, s3) == 60, "60 records are in the sink")
        assert member.terminate() == 0
    assert s3.options["AWS_SECRET_ACCESS_KEY"] not in (tmp_path / "gateway.log").read_text()


def rows_of(table: str, s3: S3Server) -> int:
    is_there = DeltaTable.is_deltatable(table, s3.options)
    return DeltaTable(table, storage_options=s3.options).count() if is_there else 0
