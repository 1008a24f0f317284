"""Members with the project's own Python client, whose code runs as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import pytest

from sharegroup.client.cluster import Cluster
from sharegroup.client.records import TopicIdPartition
from sharegroup.gateway.handlers.share import share_acknowledgements
from sharegroup.protocol.acknowledge_rules import UNUSED
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from tests.simulation.run import run
from tests.simulation.wire.python_client import PythonClient

#: Seeds of which most members at gateways, and some of them, have the Python client. In the last one, they release.
_MOST, _SOME, _RELEASING = 10, 21, 8
_FAULTS = ("leader_away", "slow_metadata", "gateway_killed")


def leaders_are_looked_up_once(patch: pytest.MonkeyPatch) -> None:
    """The client stays with the leaders that it knew first."""

    def sources(cluster: Cluster, partitions: Iterable[tuple[UUID, int]]) -> dict[TopicIdPartition, int]:
        return {
            TopicIdPartition(topic_id, partition, cluster._names[topic_id]): cluster._leaders[topic_id, partition]
            for topic_id, partition in partitions
            if (topic_id, partition) in cluster._leaders
        }

    patch.setattr(Cluster, "sources", sources)
    patch.setattr(Cluster, "note_leader", lambda *_: None)
    patch.setattr(Cluster, "forget_leaders", lambda _: None)
    patch.setattr(Cluster, "is_stale", property(lambda cluster: cluster._refreshed_s is None))


def released_records_count_as_unused(patch: pytest.MonkeyPatch) -> None:
    """The gateway takes back the delivery of each record that the application releases."""

    def split(batches: Sequence[AcknowledgementBatch]) -> tuple[list[AcknowledgementBatch], list[AcknowledgementBatch]]:
        release = (AcknowledgeType.RELEASE,)
        released = [batch for batch in batches if batch.acknowledge_types in (release, UNUSED)]
        others = [batch for batch in batches if batch not in released]
        return [batch._replace(acknowledge_types=release) for batch in released], others

    patch.setattr(share_acknowledgements, "split_unused", split)


def test_python_clients_break_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = PythonClient.start

    def note_start(client: PythonClient) -> None:
        started.append(client.member_id)
        start(client)

    monkeypatch.setattr(PythonClient, "start", note_start)
    assert run(_MOST, 0.2, ()).violations == ()
    assert started, "another seed has members with the Python client"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("plant", "seed", "rules"),
    [
        (lambda _: None, _SOME, set()),
        (leaders_are_looked_up_once, _SOME, {"everything is delivered"}),
        (lambda _: None, _RELEASING, set()),
        (released_records_count_as_unused, _RELEASING, {"count below deliveries"}),
    ],
)
def test_a_planted_defect_of_python_clients_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert {violation.rule for violation in run(seed, 0.4, _FAULTS).violations} == rules
