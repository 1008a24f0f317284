"""A gateway that reserves records for waiting members, and delivers them without waiting for the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import AcknowledgeType

from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.ports import free_port
from tests.integration.lone_gateway import gateway_to_job
from tests.integration.metric_scrapes import Scrape
from tests.integration.share_members import Group, Record

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

GIVEN, RESERVED = "sharegroup_gateway_acquired_records_total", "sharegroup_reserved_records"
#: Records that a test produces one by one until enough of them came by reservation.
MOST = 500


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
def reserving_gateway(share_group_job: ShareGroupJobRun, metrics_port: int, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway of the main job, with reservations."""
    keys, options = {"gateway.reservations.enable": True}, [f"--metrics-port={metrics_port}"]
    with gateway_to_job(share_group_job, tmp_path, keys, options) as gateway:
        yield gateway


def reserved_records(metrics_port: int) -> float:
    """The records that came by reservation so far."""
    return Scrape(metrics_port).value(GIVEN, way="reserved")


def produce_one_by_one(
    producer: KafkaProducer, topic: str, is_enough: Callable[[int], bool], poll: Callable[[int], None]
) -> int:
    """Produce a record and poll, until it is enough. Both functions get the number of records, which is returned."""
    produced = 0
    while not is_enough(produced) and produced < MOST:
        producer.send(topic, b"record %d" % produced, partition=0)
        producer.flush()
        produced += 1
        poll(produced)
    return produced


@pytest.mark.thorough
def test_records_are_delivered_with_locks_of_a_second(
    reserving_gateway: GatewayProcess,
    metrics_port: int,
    share_group_job: ShareGroupJobRun,
    producer: KafkaProducer,
    new_topic: NewTopic,
) -> None:
    """The lock of a reserved record begins when it is assigned, not in the micro-batch that reserved it."""
    topic = new_topic(1, 0)
    group = Group(share_group_job, reserving_gateway.bootstrap_servers, topic, "second_lock")
    with group.member() as member:
        produced = produce_one_by_one(
            producer,
            topic,
            lambda produced: reserved_records(metrics_port) >= 20,
            lambda produced: member.poll_until(lambda: len(member.accepted) == produced),
        )
        assert reserved_records(metrics_port) >= 20
        port = share_group_job.config.job.metrics_port
        member.poll_until(lambda: Scrape(port).sum(RESERVED) > 0)
        assert group.await_finished(member).outcomes == {"accepted": produced}


def test_released_records_are_delivered_again_by_the_gateway(
    reserving_gateway: GatewayProcess,
    metrics_port: int,
    share_group_job: ShareGroupJobRun,
    producer: KafkaProducer,
    new_topic: NewTopic,
) -> None:
    """Each record is released once. The gateway delivers some of them twice without a micro-batch."""
    topic = new_topic(1, 0)
    group = Group(share_group_job, reserving_gateway.bootstrap_servers, topic)

    with group.member(share_acknowledgement_mode="explicit") as member:

        def release_once(record: Record) -> None:
            is_first = record.delivery_count == 1
            member.acknowledge(record, AcknowledgeType.RELEASE if is_first else AcknowledgeType.ACCEPT)

        def poll(produced: int) -> None:
            member.poll_until(
                lambda: sum(len(codes) == 2 for codes in member.answers.values()) == produced, release_once
            )

        produced = produce_one_by_one(producer, topic, lambda produced: reserved_records(metrics_port) > produced, poll)
        assert reserved_records(metrics_port) > produced
        assert set(map(tuple, member.deliveries.values())) == {(1, 2)}
        assert group.await_finished(member).outcomes == {"accepted": produced}
