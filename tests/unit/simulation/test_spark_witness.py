"""The judgement of a Spark member's acknowledgements."""

from __future__ import annotations

import pytest

from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import LogBatch
from tests.simulation.spark.spark_witness import SparkWitness
from tests.simulation.world import World, make_world

LOCK_MS = 30_000
ACQUIRED = (AcquiredRange(0, 9, 1),)


class Member:
    """A member that acquired offsets 0..9 at the time 0, and that has a renewal on its way."""

    def __init__(self) -> None:
        self.world: World = make_world(1, faults=[])
        self.start_ms = self.world.clock.now_ms
        topic_id = self.world.kafka.create_topic("orders", 1).topic_id
        self._partition = "g", "orders", topic_id, 0, "m"
        self._witness = SparkWitness(self.world, "g", "m")
        self._witness.sends(FetchRequest("fetch", *self._partition, max_records=10))
        self._witness.hears(
            FetchResponse("fetch", "m", *self._partition, acquired=ACQUIRED, lock_deadline_ms=self.start_ms + LOCK_MS)
        )
        self.sends("renewal", AcknowledgeType.RENEW, at_ms=0)

    def sends(self, request_id: str, kind: AcknowledgeType, at_ms: int) -> None:
        is_renewal = kind is AcknowledgeType.RENEW
        batches = (AcknowledgementBatch(0, 9, (kind,)),)
        request = AcknowledgeRequest(
            request_id, *self._partition, batches=batches, acquired=ACQUIRED, is_renew_ack=is_renewal
        )
        self._witness.sends(request)(LogBatch(0, 0, self.start_ms + at_ms, ()))

    def hears_renewal(self, until_ms: int) -> None:
        deadline_ms = self.start_ms + until_ms
        self._witness.hears(
            AcknowledgeResponse("renewal", "m", *self._partition, acquired=ACQUIRED, lock_deadline_ms=deadline_ms)
        )

    def hears_acceptance(self) -> None:
        self._witness.hears(AcknowledgeResponse("acceptance", "m", *self._partition))

    def rules(self) -> list[str]:
        return [violation.rule for violation in self.world.judge.violations]


@pytest.mark.parametrize(
    ("deadlines_ms", "rules"),
    [
        ([LOCK_MS], ["an acknowledgement after its lock"]),
        ([LOCK_MS, 2 * LOCK_MS], []),
        ([LOCK_MS, 2 * LOCK_MS, LOCK_MS], []),
    ],
    ids=["one row", "a repeated row", "a repeated response"],
)
def test_each_row_of_a_repeated_renewal_extends_the_locks(deadlines_ms: list[int], rules: list[str]) -> None:
    member = Member()
    for until_ms in deadlines_ms:
        member.hears_renewal(until_ms)
    member.sends("acceptance", AcknowledgeType.ACCEPT, at_ms=LOCK_MS + 5_000)
    member.hears_acceptance()
    assert member.rules() == rules
