"""What outlives a job: locks, requests that came while it was down, and the batch that SIGTERM caught."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from sharegroup.errors import ErrorCode
from sharegroup.job.lead.stale_checkpoint import OPERATOR_SHARDS, SHUFFLE_PARTITIONS
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUPS
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.share_members import Group, keys
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.raw_member import RequestClient
    from tests.integration.conftest import NewTopic

#: Records, and the requests for one of them each.
LOAD = 300
EXIT_STALE = 1


def fetched(client: RequestClient, request_id: str) -> FetchResponse:
    response = client.await_response(request_id)
    assert isinstance(response, FetchResponse)
    assert response.error_code == ErrorCode.NONE
    return response


def test_locks_and_requests_outlive_the_job_and_its_checkpoint(
    kafka: EmbeddedKafka, producer: KafkaProducer, new_topic: NewTopic, tmp_path: Path
) -> None:
    with (
        ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="restart-", master="local[1]") as job,
        contextlib.ExitStack() as resources,
    ):
        job.start()
        job.await_running()
        for query in ("group_coordinator", "share_partition"):
            assert job.next_batch(query) > 0, "it reports that it runs when it has answered"
        client, topic = job.client(), new_topic(1, 20)
        holder = RawMember(client, job.new_group("restart_lock"))
        waiter = RawMember(client, holder.group_id)
        for member in (holder, waiter):
            member.join({topic: 1})
        # A client of a gateway, whose fetch waits for the next record when the job dies.
        gateway = resources.enter_context(GatewayProcess(job.config_path, tmp_path / "gateway.log"))
        client_group = Group(job, gateway.bootstrap_servers, new_topic(1, 1))
        share_consumer = resources.enter_context(client_group.member())
        share_consumer.poll_until(lambda: share_consumer.accepted == keys(1, 1))
        held = holder.fetch(topic, 0, 20)  # right before the end: the lock is for what is acknowledged after it
        assert held.acquired == (AcquiredRange(0, 19, 1),)

        job.process.kill()
        # While no job runs: the holder is in time for some of its records, the waiter wants whatever there is.
        accepted = client.send(holder.acknowledge_request(topic, 0, [(0, 4, AcknowledgeType.ACCEPT)]))
        demand = client.send(waiter.fetch_request(topic, 0, 100))
        job.remove_checkpoint()
        job.start()
        producer.send(client_group.topic, b"after the restart", partition=0).get(60)

        assert client.await_response(accepted).error_code == ErrorCode.NONE
        redelivered = fetched(client, demand)
        assert redelivered.acquired == (AcquiredRange(5, 19, 2),)  # an old fetch run again would make it 3
        lock_ms = job.config.group_config(holder.group_id).record_lock_duration_ms
        assert redelivered.lock_deadline_ms - lock_ms > held.lock_deadline_ms  # not before the lock was over
        late = holder.acknowledge(topic, 0, [(5, 19, AcknowledgeType.ACCEPT)])
        assert late.error_code == ErrorCode.INVALID_RECORD_STATE

        # The job knows nothing of the fetch that waited, and the gateway has sent it again.
        share_consumer.poll_until(lambda: share_consumer.accepted == keys(1, 2))
        resources.close()

        # SIGTERM when there is nothing to do.
        assert job.process.terminate() == 0
        assert " ERROR sharegroup" not in job.log


@pytest.mark.long
def test_sigterm_under_load_ends_the_job_between_batches(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="sigterm-", master="local[1]") as job:
        job.start()
        job.await_running()
        client, load = job.client(), new_topic(1, LOAD)
        loader = RawMember(client, job.new_group())  # its locks outlive any restart
        loader.join({load: 1})
        one_by_one = [replace(loader.fetch_request(load, 0, 1), member_id=f"w{n}") for n in range(LOAD)]
        client.send_all(one_by_one)
        assert job.process.terminate() == 0
        job.start()
        answers = [fetched(client, request.id).acquired for request in one_by_one]
        offsets = sorted(
            offset for acquired in answers for first, last, _ in acquired for offset in range(first, last + 1)
        )
        assert offsets == list(range(LOAD))
        assert " ERROR sharegroup" not in job.log


@pytest.mark.thorough
def test_a_restart_with_more_shuffle_partitions_and_shards_keeps_locks(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="wider-", master="local[1]") as job:
        job.start()
        job.await_running()
        client, topic = job.client(), new_topic(1, 20)
        holder = RawMember(client, job.new_group())
        holder.join({topic: 1})
        assert holder.fetch(topic, 0, 10).acquired == (AcquiredRange(0, 9, 1),)
        job.process.kill()
        accepted = client.send(holder.acknowledge_request(topic, 0, [(0, 4, AcknowledgeType.ACCEPT)]))
        demand = client.send(holder.fetch_request(topic, 0, 100))

        job.configure(shuffle_partitions=3, operator_shards=2)
        job.start()
        assert client.await_response(accepted).error_code == ErrorCode.NONE
        assert fetched(client, demand).acquired == (AcquiredRange(10, 19, 1),)  # the lock of before is still there
        shards = f"{OPERATOR_SHARDS} (1 in the checkpoint, 2 in the configuration)"
        shuffle = f"{SHUFFLE_PARTITIONS} (1 in the checkpoint, 3 in the configuration)"
        assert f"query group_coordinator: changed configuration: {shuffle}; the checkpoint is discarded" in job.log
        assert f"query share_partition: changed configuration: {shards}, {shuffle}; the checkpoint is" in job.log
        state = job.checkpoint_path / "share_partition" / "state" / "0"
        assert {path.name for path in state.iterdir() if path.name.isdecimal()} == {"0", "1", "2"}


def delete_requests(kafka: EmbeddedKafka, topic: str) -> None:
    """As retention does it: all requests that are there."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
    try:
        partitions = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
        admin.delete_records(consumer.end_offsets(partitions))
    finally:
        consumer.close()
        admin.close()


@pytest.mark.thorough
def test_a_repeated_batch_without_its_requests_drops_the_checkpoint(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="trimmed-", master="local[1]") as job:
        job.start()
        job.await_running()
        client, topic = job.client(), new_topic(1, 20)
        member = RawMember(client, job.new_group())
        member.join({topic: 1})
        assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(0, 9, 1),)
        assert job.process.terminate() == 0

        accepted = client.send(member.acknowledge_request(topic, 0, [(0, 9, AcknowledgeType.ACCEPT)]))
        job.start(f"share_partition:2:{job.next_batch('share_partition')}")
        assert job.process.wait() != 0
        delete_requests(kafka, job.config.job.partition_requests_topic)

        job.start()
        assert client.await_response(accepted).error_code == ErrorCode.NONE
        assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(10, 19, 1),)
        assert "ran again, and its effects differ from those of its first run" in job.log
        assert "the checkpoint is dropped, and the query recovers from the tables" in job.log
        state = DeltaTable(str(job.tables_path / SHARE_GROUP_STATE.name)).to_pyarrow_table()
        assert max(state["start_offset"].to_pylist()) == 10


@pytest.mark.long
def test_an_older_checkpoint_of_the_same_query_is_refused(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """As restored from a backup; the tables have batches that it does not know."""
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="older-", master="local[1]") as job:
        job.start()
        job.await_running()
        client, query = job.client(), "group_coordinator"
        backup, table = tmp_path / "backup", DeltaTable(str(job.tables_path / SHARE_GROUPS.name))

        def has_grown() -> bool:
            before = table.version()
            table.update_incremental()
            return table.version() > before

        has_grown()
        for _ in range(2):
            client.send_value(job.config.job.group_requests_topic, b"no request")
            wait_until(has_grown, "a batch with effects")
            wait_until(lambda: job.is_committed(query, job.next_batch(query) - 1), "Spark commits it")
            if not backup.exists():
                shutil.copytree(job.checkpoint_path / query, backup)
        assert job.process.terminate() == 0

        older = job.checkpoint_path / query
        shutil.rmtree(older)
        shutil.copytree(backup, older)
        job.start()
        assert job.process.wait() == EXIT_STALE
        assert "remove that checkpoint" in job.log
        assert str(older) in job.log

        shutil.rmtree(older)
        job.start()
        job.await_running()
