"""A DeleteTopics has passed through a gateway: it looks again which topics there are."""

from __future__ import annotations

import pytest

from sharegroup.gateway.handlers import passthrough_requests
from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.passthrough import DELETE_TOPICS
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from tests.processes.served_clients import NODE_ID, Serve


async def test_the_gateway_looks_again_and_once_more(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setattr(passthrough_requests, "SECOND_REFRESH_S", 0.0)
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)
    gateway, _ = await serve()
    asked: list[object] = []

    async def metadata(names: object = None) -> object:
        asked.append(names)
        raise UpstreamUnavailableError("away")

    monkeypatch.setattr(gateway.parts.cluster, "_metadata", metadata)
    monkeypatch.setitem(gateway.parts.cluster._connections._addresses, NODE_ID, ("127.0.0.1", 1))
    passthrough = gateway.parts.pass_through.create_link(NODE_ID)
    passthrough._topics_changed(DELETE_TOPICS)
    passthrough._topics_changed(DELETE_TOPICS)  # the same look does for both
    assert gateway.parts.pass_through._refreshing is not None
    await gateway.parts.pass_through._refreshing
    assert asked == [None, None]
