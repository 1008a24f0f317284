"""A gateway holds nothing that is lost with it: members go on at another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sharegroup.testkit.gateway_process import GatewayProcess
from tests.integration.share_members import Group, Member, keys

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testkit.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

ROUND = 100


def test_a_member_goes_on_at_another_gateway(
    share_group_job: ShareGroupJobRun, producer: KafkaProducer, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Each of two gateways is killed while the other one lives, so one death is that of the one in use.

    The locks last for longer than the test: what the member held there comes back because its new session says so.
    """
    config = share_group_job.config_path
    topic = new_topic(2)
    produced = 0

    def produce() -> None:
        nonlocal produced
        for number in range(2 * ROUND):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush()
        produced += ROUND

    with (
        GatewayProcess(config, tmp_path / "one.log") as one,
        GatewayProcess(config, tmp_path / "two.log") as two,
    ):
        group = Group(share_group_job, f"{one.bootstrap_servers},{two.bootstrap_servers}", topic)
        with group.member() as member:
            produce()
            member.poll_until(lambda: delivered_all(member, produced))
            produce()
            one.kill()
            member.poll_until(lambda: delivered_all(member, produced))
            one.start()
            produce()
            two.kill()
            member.poll_until(lambda: delivered_all(member, produced))
            member.poll_until(lambda: member.accepted == keys(2, produced))
        assert group.await_finished().outcomes == {"accepted": 2 * produced}


def delivered_all(member: Member, produced: int) -> bool:
    return set(member.deliveries) == keys(2, produced)
