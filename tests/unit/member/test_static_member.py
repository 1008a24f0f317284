"""A static member over two processes: the batch of the first one waits for the second one."""

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from tests.unit.core.operators.shard_driver import LOCK_MS

from .in_memory_job import InMemoryJob
from .test_member_logic import Drive

STATIC_MS = 300_000


@pytest.fixture
def job() -> InMemoryJob:
    return InMemoryJob(records=100)


def test_static_heartbeats_have_instance_id_and_incarnation(job: InMemoryJob) -> None:
    for name, process in (("worker-1", "p1"), (None, "p2")):
        Drive(job, process, name=name).step()
    told = {(row.incarnation_id, row.group_instance_id) for row in Drive(job).heartbeats()}
    assert told == {("p1", "worker-1"), ("p2", None)}


def test_a_static_members_batch_waits_for_its_next_process(job: InMemoryJob) -> None:
    """The locks of its batch are long from the begin; those of ranges read ahead are not."""
    first = Drive(job, "p1", max_records=40, name="worker-1")
    batch = first.claim()
    first.begin(batch)
    first.step()
    assert [row.is_static for row in job.acknowledgements(is_renew_ack=True)] == [True]
    assert {row.is_static for row in job.sent(FetchRequest)} == {False}

    job.advance(STATIC_MS - 1_000)  # killed, and stopped for this long
    ahead = job.fetch("other")
    assert ahead
    assert {count for _, _, count in ahead} == {2}
    second = Drive(job, "p2", max_records=40, name="worker-1")
    again = second.begin(batch)
    assert [held[3:6] for held in again] == [held[3:6] for held in batch.ranges]
    second.accept(again)
    second.step()
    assert [(first, last, member) for first, last, member, _ in job.log_of("accept")] == [(0, 39, "m")]


def test_a_dynamic_members_batch_goes_to_others(job: InMemoryJob) -> None:
    drive = Drive(job, "p1", max_records=40)
    drive.begin(drive.claim())
    drive.step()
    assert job.acknowledgements(is_renew_ack=True) == []
    job.advance(LOCK_MS + 1)
    assert job.fetch("other")[0][0] == 0


def test_a_replaced_process_ends_and_holds_nothing(job: InMemoryJob) -> None:
    drive = Drive(job, "p1", name="worker-1")
    drive.begin(drive.claim())
    drive.step()
    assert drive.logic.holds_batch(job.now_ms())
    job.refuse_joins_with = ErrorCode.FENCED_INSTANCE_ID
    job.advance(6_000)
    drive.step()  # its heartbeat
    drive.step()  # and the response
    assert isinstance(drive.logic.failure, RequestError)
    assert drive.logic.failure.code is ErrorCode.FENCED_INSTANCE_ID
    assert not drive.logic.holds_batch(job.now_ms())
    count = len(drive.heartbeats())
    job.advance(60_000)
    drive.step()
    assert len(drive.heartbeats()) == count


@pytest.mark.parametrize(
    ("name", "leave_group", "epoch"), [("worker-1", False, -2), ("worker-1", True, -1), (None, False, -1)]
)
def test_a_static_member_stays_in_the_group_unless_it_leaves(
    job: InMemoryJob, name: str | None, leave_group: bool, epoch: int
) -> None:
    drive = Drive(job, "p1", name=name)
    drive.claim()
    drive.logic.close(job.now_ms(), leave_group)
    drive.step()
    assert drive.heartbeats()[-1].member_epoch == epoch
    drive.step()
    assert drive.logic.is_over(job.now_ms())
