"""The participants of conversations with a gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.gateway.conversation import Client, EventLoop, Job, ShareGateway


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    with EventLoop() as loop:
        yield loop


@pytest.fixture
def gateway(loop: EventLoop) -> ShareGateway:
    return ShareGateway(loop)


@pytest.fixture
def job(gateway: ShareGateway) -> Job:
    return gateway.job


@pytest.fixture
def client(gateway: ShareGateway) -> Client:
    return gateway.connect()
