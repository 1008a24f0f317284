"""Members with the project's own Python client, whose code runs as it is."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from sharegroup.client.cluster import Cluster
from sharegroup.client.records import TopicIdPartition
from tests.simulation.run import run
from tests.simulation.wire.python_client import PythonClient

#: Seeds of which most members at gateways, and some of them, have the Python client.
_MOST, _SOME = 10, 21
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
@pytest.mark.parametrize("is_planted", [False, True])
def test_a_planted_defect_of_python_clients_is_found(is_planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_planted:
        leaders_are_looked_up_once(monkeypatch)
    found = {violation.rule for violation in run(_SOME, 0.4, _FAULTS).violations}
    assert found == ({"everything is delivered"} if is_planted else set())
