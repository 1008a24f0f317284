"""A group id that is a classic or a consumer group upstream: no share group, as in Kafka. Without a job."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from sharegroup.errors import ErrorCode
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.conftest import NewTopic
from tests.integration.lone_gateway import lone_gateway
from tests.integration.waiting import wait_until
from tests.processes.served_clients import Client

#: What a heartbeat is answered that would go to the job: there is none.
GOES_ON = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
REFUSED = int(ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.fixture(scope="module")
def gateway(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """In place of the one with a job."""
    with lone_gateway(tmp_path_factory.mktemp("kinds-gateway"), kafka.bootstrap_servers) as process:
        yield process
        assert process.terminate() == 0
        assert "Traceback" not in process.log_path.read_text()


def joined(gateway: GatewayProcess, group_id: str, topic: str, epoch: int = 0) -> int:
    """The error code of a share group heartbeat."""
    (address,) = gateway.addresses.values()
    asked = ShareGroupHeartbeatRequest(
        group_id=group_id,
        member_id=str(uuid.uuid4()),
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=[topic],
    )

    async def ask() -> int:
        client = await Client(int(address.rpartition(":")[2]), []).connect()
        try:
            return int((await client.ask(asked, ShareGroupHeartbeatResponse, 1)).error_code)
        finally:
            await client.close_all()

    return asyncio.run(ask())


@contextlib.contextmanager
def assigned_member(gateway: GatewayProcess, group_id: str, topic: str, protocol: str) -> Iterator[None]:
    """A consumer of the group that has its assignment."""
    config = {"bootstrap.servers": gateway.bootstrap_servers, "group.id": group_id, "group.protocol": protocol}
    consumer = Consumer(config)
    consumer.subscribe([topic])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    try:
        wait_until(is_assigned, f"the member of the {protocol} group is assigned")
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_another_kind_is_no_share_group(
    gateway: GatewayProcess,
    kafka: EmbeddedKafka,
    new_topic: NewTopic,
    unique_name: Callable[[str], str],
    protocol: str,
) -> None:
    topic, group_id = new_topic(), unique_name(protocol)
    with assigned_member(gateway, group_id, topic, protocol):
        wait_until(lambda: joined(gateway, group_id, topic) == REFUSED, "the broker says what the group is")
        assert joined(gateway, group_id, topic, epoch=1) == GOES_ON  # the job knows whether it has such a member
        assert joined(gateway, unique_name("share"), topic) == GOES_ON
    # Without members it is still a group.
    wait_until(lambda: joined(gateway, group_id, topic) == REFUSED, "the broker says what the group is")
    kafka.admin_client().delete_groups([group_id])
    wait_until(lambda: joined(gateway, group_id, topic) == GOES_ON, "the name is free again")
