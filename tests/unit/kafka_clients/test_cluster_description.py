"""The description of a cluster, also for brokers whose response kafka-python cannot decode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sharegroup.kafka_clients.cluster_description import describe_cluster

METADATA = {
    "cluster_id": "abc",
    "controller_id": 2,
    "brokers": [{"node_id": 1, "host": "a"}, {"node_id": 2, "host": "b"}],
}


class Admin:
    """An admin client of brokers of 3.7 and later, or of 2.8 to 3.6."""

    def __init__(self, is_newer: bool) -> None:
        self.is_newer = is_newer
        self._manager = SimpleNamespace(run=lambda ask, topics: ask(topics))

    def describe_cluster(self) -> dict[str, Any]:
        if not self.is_newer:
            raise KeyError("endpoint_type")
        return {"cluster_id": "abc", "brokers": [{"broker_id": 1}, {"broker_id": 2}]}

    def _get_cluster_metadata(self, topics: list[str]) -> dict[str, Any]:
        assert topics == []
        return METADATA


def test_brokers_of_all_releases_are_described() -> None:
    for is_newer in (True, False):
        admin: Any = Admin(is_newer)
        found = describe_cluster(admin)
        assert found["cluster_id"] == "abc"
        assert [broker["broker_id"] for broker in found["brokers"]] == [1, 2]
