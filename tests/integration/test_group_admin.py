"""A group is administered by rows of the request topic while the job runs, dies, and comes back from the tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from deltalake import DeltaTable

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    DeleteGroupResponse,
    DeleteOffsetsResponse,
)
from sharegroup.storage import read_group_configs, read_groups, read_share_group_offsets, table_path
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUPS, SHARE_PARTITIONS, TableSpec
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.raw_member import RequestClient
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

R = TypeVar("R", AlterOffsetsResponse, DeleteOffsetsResponse, DeleteGroupResponse, AlterConfigsResponse)

LOCK = "share.record.lock.duration.ms"
#: What the group has by the job's file is 600 s; what is set here is far from it, whatever the machine's speed.
LOCK_MS = 60_000
FAR_MS = 300_000


class Administrator:
    """Sends requests for one group, and reads its tables."""

    def __init__(self, client: RequestClient, group_id: str, tables_path: Path) -> None:
        self._client, self._group_id, self.tables_path = client, group_id, str(tables_path)

    def alter_offsets(self, topic: str, partition: int, start_offset: int) -> AlterOffsetsResponse:
        offsets = (StartOffset(topic, partition, start_offset),)
        topics = {topic: TopicMetadata(self._client.topic_id(topic), 2)}
        return self._call(AlterOffsetsRequest(*self._named(), offsets=offsets, topics=topics), AlterOffsetsResponse)

    def delete_offsets(self, *topic_names: str) -> DeleteOffsetsResponse:
        return self._call(DeleteOffsetsRequest(*self._named(), topic_names=topic_names), DeleteOffsetsResponse)

    def delete_group(self) -> DeleteGroupResponse:
        return self._call(DeleteGroupRequest(*self._named()), DeleteGroupResponse)

    def alter_configs(self, configs: Mapping[str, str | None]) -> AlterConfigsResponse:
        return self._call(AlterConfigsRequest(*self._named(), configs=configs), AlterConfigsResponse)

    def rows(self, spec: TableSpec) -> list[dict[str, Any]]:
        table = DeltaTable(table_path(self.tables_path, spec)).to_pyarrow_table().to_pylist()
        return [row for row in table if row["group_id"] == self._group_id]

    def start_offsets(self) -> list[int]:
        return [row.start_offset for row in read_share_group_offsets(self.tables_path, self._group_id)]

    def exists(self) -> bool:
        return self._group_id in [row.group_id for row in read_groups(self.tables_path)]

    def _named(self) -> tuple[str, str, str]:
        return self._client.next_id(), self._group_id, self._client.reply_to

    def _call(self, request: AdministratorRequest, kind: type[R]) -> R:
        response = self._client.call(request)
        assert isinstance(response, kind)
        return response


def test_a_group_is_administered(kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path) -> None:
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="admin-", master="local[1]") as job:
        job.start()
        job.await_running()
        client, topic, group_id = job.client(), new_topic(2, 20), job.new_group()
        admin = Administrator(client, group_id, job.tables_path)

        def joined() -> RawMember:
            member = RawMember(client, group_id)
            member.join({topic: 2})
            return member

        # Offsets are altered, once the group is empty.
        member = joined()
        assert member.fetch(topic, 0, 20).acquired == (AcquiredRange(0, 19, 1),)
        member.acknowledge(topic, 0, [(0, 9, AcknowledgeType.ACCEPT)])
        assert admin.alter_offsets(topic, 0, 5).error_code == ErrorCode.NON_EMPTY_GROUP
        member.leave()
        assert admin.alter_offsets(topic, 0, 5).partition_errors == ((topic, 0, 0, None),)
        assert admin.start_offsets() == [5, 0]
        unknown = admin.alter_offsets(topic, 2, 5).partition_errors
        assert [error.error_code for error in unknown] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        member = joined()
        assert member.fetch(topic, 0, 20).acquired == (AcquiredRange(5, 19, 1),)

        # A config is in force in both queries, without a restart.
        assert admin.alter_configs({LOCK: "1"}).error_code == ErrorCode.INVALID_CONFIG
        configs: dict[str, str | None] = {LOCK: str(LOCK_MS), "share.heartbeat.interval.ms": "300"}
        assert admin.alter_configs(configs).error_code == ErrorCode.NONE
        assert member.heartbeat().heartbeat_interval_ms == 300

        def lock_is_short(member: RawMember) -> bool:
            response = member.fetch(topic, 1, 1)
            assert response.acquired
            client.call(member.unacquire_request(topic, 1, [response.acquired[0][:2]]))
            return response.lock_deadline_ms - time.time() * 1000 < FAR_MS

        wait_until(lambda: lock_is_short(member), "the lock duration that was set")

        # Offsets are deleted, and the job dies with its checkpoint right after it said so.
        member.leave()
        deleted = admin.delete_offsets(topic, "another")
        assert [(error.topic, error.error_code) for error in deleted.topic_errors] == [
            (topic, ErrorCode.NONE),
            ("another", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert admin.start_offsets() == []
        job.process.kill()
        job.remove_checkpoint()
        job.start()
        wait_until(lambda: not admin.rows(SHARE_PARTITIONS), "the rows of deleted share-partitions are gone")
        tombstones = [row for row in admin.rows(SHARE_GROUP_STATE) if row["record_type"] == "Tombstone"]
        assert {row["partition"] for row in tombstones} == {0, 1}

        # Subscribed to again, the topic is new to the group, whose configs are what they were.
        member = joined()
        assert member.fetch(topic, 0, 20).acquired == (AcquiredRange(0, 19, 1),)
        assert lock_is_short(member)
        assert member.heartbeat().heartbeat_interval_ms == 300

        # The group is deleted, and its configs stay.
        assert admin.delete_group().error_code == ErrorCode.NON_EMPTY_GROUP
        member.leave()
        assert admin.delete_group().error_code == ErrorCode.NONE
        assert not admin.exists()
        wait_until(lambda: not (admin.rows(SHARE_PARTITIONS) or admin.rows(SHARE_GROUPS)), "its rows are gone")
        assert admin.delete_group().error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert read_group_configs(admin.tables_path)[group_id] == configs
        assert job.process.terminate() == 0
        assert " ERROR sharegroup" not in job.log
