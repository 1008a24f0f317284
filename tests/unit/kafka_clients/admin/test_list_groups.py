"""Groups are listed from every broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.errors import KafkaConnectionError, UnknownBrokerIdError

from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.groups import list_groups


class FixedBrokers:
    """Broker 1 has a group. Broker 2 fails with `problem`, and is no longer in the cluster if `is_gone`."""

    def __init__(self, problem: Exception, is_gone: bool) -> None:
        self._problem, self._is_gone, self._ids = problem, is_gone, [1, 2]

    def node_ids(self) -> list[int]:
        return self._ids

    def retry(self, attempt: Callable[[], Any]) -> Any:
        return attempt()

    def request_once(self, request: Any, node_id: int) -> Any:
        if node_id == 2:
            if self._is_gone:
                self._ids = [1]
            raise self._problem
        row = SimpleNamespace(group_id="orders", group_state="Stable", group_type="share", protocol_type="share")
        return SimpleNamespace(error_code=0, groups=[row])


def test_broker_that_left_meanwhile_is_ignored() -> None:
    brokers = FixedBrokers(UnknownBrokerIdError(2), is_gone=True)
    assert [row.group_id for row in list_groups(cast(Brokers, brokers), (), ())] == ["orders"]


@pytest.mark.parametrize("problem", [UnknownBrokerIdError(2), KafkaConnectionError()])
def test_broker_that_does_not_respond_is_an_error(problem: Exception) -> None:
    """Otherwise its groups would be missing without notice."""
    with pytest.raises(type(problem)):
        list_groups(cast(Brokers, FixedBrokers(problem, is_gone=False)), (), ())
