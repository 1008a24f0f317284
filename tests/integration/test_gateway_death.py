"""A gateway holds nothing that is lost with it: members go on at another one, without waiting for any lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.share_members import Group, Record, keys
from tests.integration.whole_log import whole_delivery_log

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

ROUND = 100
#: Micro-batches from the release of a record to its next delivery: the demand for it comes right behind the release.
MAX_BATCHES = 3


@pytest.mark.thorough
def test_a_member_goes_on_at_another_gateway(
    share_group_job: ShareGroupJobRun, producer: KafkaProducer, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Each of two gateways is killed while the other one lives, so one death is that of the one in use.

    The member holds records then. Locks and sessions last for longer than the test's patience: what it held comes back
    because its new session says so. How soon is told by the order of the job's batches, not by a clock.
    """
    config = share_group_job.config_path
    topic = new_topic(2)

    def outlive(dying: GatewayProcess, produced: int) -> bool:
        """Whether what the member holds comes again; `produced` records are in each partition by then."""
        for number in range(2 * ROUND):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush()
        held: list[Record] = []
        member.poll_until(lambda: bool(held), held.append)
        dying.kill()
        for record in held:
            member.acknowledge(record)
        member.poll_until(lambda: member.accepted == keys(2, produced), member.acknowledge)
        dying.start()
        return all(len(member.deliveries[record.key]) > 1 for record in held)

    with (
        GatewayProcess(config, tmp_path / "one.log") as one,
        GatewayProcess(config, tmp_path / "two.log") as two,
    ):
        group = Group(share_group_job, f"{one.bootstrap_servers},{two.bootstrap_servers}", topic)
        with group.member(share_acknowledgement_mode="explicit") as member:
            came_again = [outlive(one, ROUND), outlive(two, 2 * ROUND)]
    assert any(came_again)
    found = group.await_finished()
    assert (found.outcomes, found.lock_timeouts) == ({"accepted": 4 * ROUND}, 0)
    waits = batches_until_delivered_again(share_group_job, group.id)
    assert waits
    assert max(waits) <= MAX_BATCHES


def batches_until_delivered_again(job: ShareGroupJobRun, group_id: str) -> list[int]:
    """For each range that a member's end gave back: how many batches later its first record was delivered again."""
    table = whole_delivery_log(job.tables_path)
    rows: list[dict[str, Any]] = table.to_pyarrow_table(filters=[("group_id", "=", group_id)]).to_pylist()
    waits = []
    for back in (row for row in rows if row["cause"] == "member_left"):
        batches = [
            row["batch_id"]
            for row in rows
            if row["cause"] == "fetch"
            and (row["topic"], row["partition"]) == (back["topic"], back["partition"])
            and row["first_offset"] <= back["first_offset"] <= row["last_offset"]
            and row["batch_id"] >= back["batch_id"]
        ]
        waits += [min(batches) - back["batch_id"]] if batches else []
    return waits
