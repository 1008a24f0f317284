"""A member without threads: what drives it here is one loop, as in a simulation."""

import pytest

from sharegroup.protocol.request_rows import ShareGroupRequest
from sharegroup.spark.share_consumer.acknowledgements import acknowledge_all
from sharegroup.spark.share_consumer.batch_calls import NotAnsweredError
from sharegroup.spark.share_consumer.member_logic import MemberLogic, MemberSettings, renews
from sharegroup.spark.share_consumer.ranges import HeldRange, OfferedBatch
from sharegroup.types import AcknowledgeType
from tests.unit.engine.shard_driver import GROUP, LOCK_MS, T0, TOPIC

from .engine_job import EngineJob, Offers

ANSWER_MS = 20_000


class Drive:
    """A member's logic and the job, in steps."""

    def __init__(self, records: int) -> None:
        self.job, self.offers = EngineJob(records=records), Offers()
        settings = MemberSettings(GROUP, "m", (TOPIC,), max_records=100, acknowledge_timeout_ms=ANSWER_MS)
        self.logic = MemberLogic(settings, self.offers, "now")
        self.logic.opened()

    def step(self) -> None:
        now_ms = self.job.now_ms()
        if self.logic.metadata_is_due(now_ms):
            self.logic.take_metadata(self.job.topics_metadata([TOPIC]), now_ms)
        requests = self.logic.step(self.job.take("m", 0), now_ms)
        self.job.send(requests, wait=renews(requests))
        self.logic.appended(requests, now_ms)

    def claim(self) -> OfferedBatch:
        for _ in range(3):  # joined, granted, offered
            self.step()
        return self.offers.claim()


def test_a_batch_from_its_offer_to_its_end() -> None:
    drive = Drive(records=100)
    batch = drive.claim()
    assert drive.logic.begin(batch, drive.job.now_ms()).poll(drive.job.now_ms()) == batch.ranges
    acknowledging = drive.logic.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT), drive.job.now_ms())
    assert (acknowledging.may_append(drive.job.now_ms()), acknowledging.is_done) == (True, False)
    drive.job.send(acknowledging.due(drive.job.now_ms()), wait=True)
    acknowledging.appended()
    assert acknowledging.is_done
    drive.logic.finish(batch.seq)
    assert not drive.logic.holds_batch(drive.job.now_ms())
    drive.logic.close(drive.job.now_ms())
    for _ in range(2):  # the answer and the leave, then its answer
        assert not drive.logic.is_over(drive.job.now_ms())
        drive.step()
    assert drive.logic.is_over(drive.job.now_ms())
    assert drive.job.log_of("accept") == [(0, 99, "m", 1)]
    last = drive.job.requests[-1]
    assert isinstance(last, ShareGroupRequest)
    assert last.member_epoch == -1


def test_a_batch_of_an_earlier_process_is_known_when_its_renewal_is_answered() -> None:
    drive = Drive(records=10)
    drive.job.fetch("m")
    held = HeldRange(TOPIC, 0, 0, 9, 1, T0 + LOCK_MS)
    beginning = drive.logic.begin(OfferedBatch(7, "earlier", (held,)), drive.job.now_ms())
    assert beginning.poll(drive.job.now_ms()) is None
    drive.job.advance(1_000)
    drive.step()  # the renewal goes out
    assert beginning.poll(drive.job.now_ms()) is None
    drive.step()  # and is answered
    assert beginning.poll(drive.job.now_ms()) == (held._replace(lock_deadline_ms=T0 + LOCK_MS + 1_000),)
    assert drive.logic.holds_batch(drive.job.now_ms())


def test_answers_that_do_not_come_are_told() -> None:
    drive = Drive(records=10)
    held = HeldRange(TOPIC, 0, 0, 9, 1, T0 + LOCK_MS)
    beginning = drive.logic.begin(OfferedBatch(7, "earlier", (held,)), 0)
    assert beginning.poll(ANSWER_MS) is None
    with pytest.raises(NotAnsweredError, match="has not answered"):
        beginning.poll(ANSWER_MS + 1)


def test_acknowledgements_that_cannot_be_appended_are_due_again_and_then_told() -> None:
    drive = Drive(records=100)
    batch = drive.claim()
    acknowledging = drive.logic.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT), 0)
    [request] = acknowledging.due(0)
    assert acknowledging.due(1_000) == []
    assert acknowledging.due(ANSWER_MS) == [request]
    assert not acknowledging.is_done
    with pytest.raises(NotAnsweredError, match="could not be appended"):
        acknowledging.due(ANSWER_MS + 1)
