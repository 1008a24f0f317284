"""The participants of conversations with a gateway."""

from __future__ import annotations

import pytest

from tests.harness.event_loop import EventLoop
from tests.unit.gateway.conversation import Client, Job, ShareGateway


@pytest.fixture
def gateway(loop: EventLoop) -> ShareGateway:
    return ShareGateway(loop)


@pytest.fixture
def job(gateway: ShareGateway) -> Job:
    return gateway.job


@pytest.fixture
def client(gateway: ShareGateway) -> Client:
    return gateway.connect()
