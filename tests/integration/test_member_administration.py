"""Static members and what an administrator does to them, at the real job: by functions, and on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import MemberToRemove
from kafka.errors import GroupIdNotFoundError, InvalidRequestError, UnknownMemberIdError
from typer.testing import CliRunner, Result

from sharegroup.cli.app import app
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.admin import MemberIdentity as Named
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.row_topics.group_administration import invoke_consumer_rebalance, remove_members
from sharegroup.kafka_clients.row_topics.job_request import JobNotRespondingError
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, MemberIdentity, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse, MemberError
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.storage import read_group
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.raw_member import RequestClient


class StaticMember:
    """A process of a static member that speaks for itself: its rows, by hand."""

    def __init__(self, client: RequestClient, group_id: str, topic: str, name: str, process: str) -> None:
        self._client, self._group_id, self._topic, self._name, self._process = client, group_id, topic, name, process
        self.member_id = client.reply_to  # as it asks for itself, and not for others as a gateway does
        self.epoch = 0

    def heartbeat(self, epoch: int) -> HeartbeatResponse:
        client, topic_id = self._client, self._client.topic_id(self._topic)
        row = HeartbeatRequest(
            client.next_id(), self._group_id, client.reply_to, member_id=self.member_id, member_epoch=epoch,
            subscribed_topic_names=(self._topic,) if epoch == 0 else None,
            topics={self._topic: TopicMetadata(topic_id, 1)},
            group_instance_id=self._name, incarnation_id=self._process,
        )  # fmt: skip
        response = client.call(row)
        assert isinstance(response, HeartbeatResponse)
        self.epoch = response.member_epoch
        return response

    def fetch(self, max_wait_ms: int = 600_000) -> FetchResponse:
        client, topic_id = self._client, self._client.topic_id(self._topic)
        row = FetchRequest(
            client.next_id(), self._group_id, self._topic, topic_id, 0, self.member_id, self.epoch, client.reply_to,
            max_records=10, max_wait_ms=max_wait_ms, is_static=True,
        )  # fmt: skip
        response = client.call(row)
        assert isinstance(response, FetchResponse)
        return response


def test_members_are_kept_rebalanced_and_removed(
    kafka: EmbeddedKafka, share_group_job: ShareGroupJobRun, unique_name: Callable[[str], str]
) -> None:
    """A worker restarts and keeps its record; it goes away, and an administrator gives the record to another one."""
    job, topic = share_group_job, unique_name("orders")
    group_id, client = job.new_group(), job.client()
    kafka.create_topic(topic, partitions=1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send(topic, b"1").get(60)
    producer.close()

    def cli(command: str, *arguments: str) -> Result:
        options = ["--config", str(job.config_path), "--group", group_id]
        return CliRunner().invoke(app, [command, *options, *arguments])

    unknown = cli("invoke-consumer-rebalance")
    assert (unknown.exit_code, unknown.stderr) == (1, f"GROUP_ID_NOT_FOUND: Group {group_id} not found.\n")
    with pytest.raises(RequestError, match="GROUP_ID_NOT_FOUND"):
        remove_members(job.config, group_id, [MemberIdentity("m", None)])

    first = StaticMember(client, group_id, topic, "worker-1", "p1")
    assert first.heartbeat(0).error_code == ErrorCode.NONE
    assert [held.delivery_count for held in first.fetch().acquired] == [1]
    assert first.heartbeat(-2).error_code == ErrorCode.NONE
    second = StaticMember(client, group_id, topic, "worker-1", "p2")
    assert second.heartbeat(0).error_code == ErrorCode.NONE
    assert first.heartbeat(second.epoch).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert invoke_consumer_rebalance(job.config, group_id) == ()

    third = StaticMember(job.client(), group_id, topic, "worker-2", "p3")
    third.heartbeat(0)
    assert third.fetch(max_wait_ms=0).acquired == ()
    assert second.heartbeat(-2).error_code == ErrorCode.NONE
    rebalanced = cli("invoke-consumer-rebalance")
    left = f"Static member worker-1 ({first.member_id}) was absent and was removed from group {group_id}."
    assert (rebalanced.exit_code, rebalanced.stdout.splitlines()) == (0, [left, f"Group {group_id} was rebalanced."])
    third.heartbeat(third.epoch)
    assert [held.delivery_count for held in third.fetch().acquired] == [2]

    removed = cli("remove-member", "--instance", "worker-2", "--member", "nobody")
    assert removed.exit_code == 1
    assert removed.stdout == f"Member worker-2 ({third.member_id}) was removed from group {group_id}.\n"
    assert removed.stderr == f"Member nobody is not in group {group_id}.\n"
    assert third.heartbeat(third.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    empty = cli("invoke-consumer-rebalance")
    assert (empty.exit_code, "it has no members" in empty.stderr) == (1, True)
    group = read_group(str(job.tables_path), group_id)
    assert group is not None
    assert group.members == ()


def test_an_administrator_needs_a_gateway_only(
    gateway: GatewayProcess, kafka: EmbeddedKafka, share_group_job: ShareGroupJobRun, unique_name: Callable[[str], str]
) -> None:
    """The same over the wire: by ShareGroupAdmin, the command line and an admin client of Kafka's."""
    job, topic, group_id = share_group_job, unique_name("orders"), share_group_job.new_group()
    kafka.create_topic(topic, partitions=1)

    def joined(name: str) -> StaticMember:
        member = StaticMember(job.client(), group_id, topic, name, "p1")
        assert member.heartbeat(0).error_code == ErrorCode.NONE
        return member

    def cli(command: str, *arguments: str) -> Result:
        options = ["--bootstrap-server", gateway.bootstrap_servers, "--group", group_id]
        return CliRunner().invoke(app, [command, *options, *arguments])

    with ShareGroupAdmin(gateway.bootstrap_servers, timeout_ms=PATIENCE_S * 1000) as admin:
        with pytest.raises(GroupIdNotFoundError, match=f"Group {group_id} does not exist"):
            admin.invoke_consumer_rebalance(group_id)
        assert isinstance(admin.remove_members(group_id, ["nobody"])[Named("nobody")], UnknownMemberIdError)
        first, second = joined("worker-1"), joined("worker-2")
        assert admin.invoke_consumer_rebalance(group_id) == []
        assert first.heartbeat(-2).error_code == ErrorCode.NONE
        assert admin.invoke_consumer_rebalance(group_id) == [Named(first.member_id, "worker-1")]
        found = admin.remove_members(group_id, ["nobody", Named("", "worker-2")])
        assert found[Named("", "worker-2")] is None
        assert isinstance(found[Named("nobody")], UnknownMemberIdError)
        assert second.heartbeat(second.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(InvalidRequestError, match="no members to be rebalanced"):
            admin.invoke_consumer_rebalance(group_id)

    third, fourth = joined("worker-3"), joined("worker-4")
    assert third.heartbeat(-2).error_code == ErrorCode.NONE
    rebalanced = cli("invoke-consumer-rebalance")
    left = f"Static member worker-3 ({third.member_id}) was absent and was removed from group {group_id}."
    assert (rebalanced.exit_code, rebalanced.stdout.splitlines()) == (0, [left, f"Group {group_id} was rebalanced."])
    removed = cli("remove-member", "--instance", "worker-4", "--member", "nobody")
    assert (removed.exit_code, removed.stderr) == (1, "nobody: The coordinator is not aware of this member.\n")
    assert removed.stdout == f"Member worker-4 was removed from group {group_id}.\n"
    assert fourth.heartbeat(fourth.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    fifth = joined("worker-5")
    kafkas = KafkaAdminClient(bootstrap_servers=gateway.bootstrap_servers)
    kafkas.remove_group_members(group_id, [MemberToRemove(group_instance_id="worker-5")])
    kafkas.close()
    assert fifth.heartbeat(fifth.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_the_brokers_groups_leave_there(
    gateway: GatewayProcess, kafka: EmbeddedKafka, unique_name: Callable[[str], str]
) -> None:
    group_id, topic = unique_name("classic"), unique_name("orders")
    kafka.create_topic(topic, partitions=1)
    consumer = KafkaConsumer(topic, bootstrap_servers=gateway.bootstrap_servers, group_id=group_id)
    wait_until(lambda: consumer.poll(100) == {} and bool(consumer.assignment()), "the consumer has joined")
    with ShareGroupAdmin(gateway.bootstrap_servers, timeout_ms=PATIENCE_S * 1000) as admin:
        assert isinstance(admin.remove_members(group_id, ["nobody"])[Named("nobody")], UnknownMemberIdError)
        with pytest.raises(GroupIdNotFoundError):
            admin.invoke_consumer_rebalance(group_id)
        assert consumer.assignment(), "its member has not been asked to leave"
        consumer.close()
        listed = {group.group_id: group.group_state for group in admin.list_groups(types=["Classic"])}
    assert listed[group_id] == "Empty"


def test_nobody_named_is_a_wrong_command_line(share_group_job: ShareGroupJobRun) -> None:
    found = CliRunner().invoke(app, ["remove-member", "--config", str(share_group_job.config_path), "--group", "g"])
    assert found.exit_code == 2
    assert "specify at least one member" in found.stderr


def test_a_job_that_does_not_answer_is_told(share_group_job: ShareGroupJobRun) -> None:
    members = [MemberIdentity("m", None)]
    with pytest.raises(JobNotRespondingError, match="did not respond within 0 s"):
        remove_members(share_group_job.config, share_group_job.new_group(), members, timeout_s=0)


def test_members_are_removed_by_the_function(
    share_group_job: ShareGroupJobRun, kafka: EmbeddedKafka, unique_name: Callable[[str], str]
) -> None:
    topic, group_id = unique_name("orders"), share_group_job.new_group()
    kafka.create_topic(topic, partitions=1)
    member = StaticMember(share_group_job.client(), group_id, topic, "worker-1", "p1")
    member.heartbeat(0)
    removed = remove_members(share_group_job.config, group_id, [MemberIdentity("", "worker-1")])
    assert removed == (MemberError(member.member_id, "worker-1", 0, None),)
