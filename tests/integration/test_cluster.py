"""On executors: local-cluster, another working directory, and a batch run again after the job was killed in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RESPONSE_DEADLINE_S, RawMember
from tests.harness.share_group_job import ShareGroupJobRun

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long


def test_killed_in_a_batch_on_a_cluster_the_job_comes_back_and_goes_on(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ShareGroupJobRun(
        tmp_path, kafka.bootstrap_servers, prefix="cluster-", master="local-cluster[2,1,1024]"
    ) as job:
        job.start("share_partition:1:1", working_directory=elsewhere)  # batch 0 reads the probe of the start
        job.await_running()
        client, topic = job.client(), new_topic(1, 20)
        member = RawMember(client, job.new_group())
        client.send(member.heartbeat_request({topic: 1}, 0))
        assert job.process.wait(RESPONSE_DEADLINE_S) != 0  # in the batch that loads the new share-partition

        job.start(working_directory=elsewhere)

        member.join({topic: 1})
        assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(0, 9, 1),)
        assert member.acknowledge(topic, 0, [(0, 9, AcknowledgeType.ACCEPT)]).error_code == 0
        assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(10, 19, 1),)
        assert job.process.terminate() == 0
