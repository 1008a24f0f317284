"""All three topics of the job get more partitions while members of each kind work: nothing is lost, nobody is deaf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.types import AcknowledgeType
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.steady_load import SteadyLoad
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.thorough

PARTITIONS = 3
BEFORE, AFTER = 3, 7


def test_the_jobs_topics_get_more_partitions_while_members_work(
    kafka: EmbeddedKafka,
    new_topic: NewTopic,
    unique_name: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    topic = unique_name("steady")
    kafka.create_topic(topic, PARTITIONS)
    partitions = {"request.topic.partitions": BEFORE}
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="grow-", job=partitions) as job:
        job.start()
        job.await_running()
        raw = RawMember(job.client(), job.new_group())
        by_hand = new_topic(1, 20)
        raw.join({by_hand: 1})
        assert raw.fetch(by_hand, 0, 10).acquired
        with (
            GatewayProcess(job.config_path, tmp_path / "gateway.log") as gateway,
            SteadyLoad(spark, job, [gateway.bootstrap_servers], topic, PARTITIONS, tmp_path) as load,
            load.writing(),
        ):
            config = job.config.job
            requests = config.group_requests_topic, config.partition_requests_topic
            kafka.admin_client().create_partitions(dict.fromkeys((*requests, config.responses_topic), AFTER))
            for name in requests:
                line = f"request topic {name} grew from {BEFORE} to {AFTER} partitions"
                wait_until(lambda line=line: line in job.log, line)
            for _ in range(3):  # the writers of rows learn of the new partitions one after the other
                load.await_deliveries()
            assert raw.acknowledge(by_hand, 0, [(0, 9, AcknowledgeType.ACCEPT)]).error_code == 0
            assert raw.fetch(by_hand, 0, 100).acquired
            assert raw.heartbeat().error_code == 0
