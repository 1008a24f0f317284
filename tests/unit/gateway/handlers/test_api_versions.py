"""ApiVersions: the part of the upstream's offer that the gateway supports."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharegroup.gateway.handlers.api_versions import OWN_VERSIONS, ApiVersions
from sharegroup.kafka_clients.connections.connection import Features
from tests.unit.gateway.scripted_upstream import ScriptedUpstream, answer

VERSION = 4
LIST_OFFSETS, FIND_COORDINATOR = 2, 10
#: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, Envelope, AllocateProducerIds, those
#: of the share coordinator, and UnregisterController of Kafka 4.4.
BETWEEN_BROKERS = (4, 5, 6, 7, 56, 58, 67, 83, 84, 85, 86, 87, 94)
OF_A_LATER_RELEASE = 999


class Offering(ScriptedUpstream):
    """`supported` and `finalized` map a feature to (lowest, highest level), `ranges` an API key to its versions."""

    def __init__(
        self,
        supported: dict[str, tuple[int, int]] | None = None,
        finalized: dict[str, tuple[int, int]] | None = None,
        ranges: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        super().__init__()
        self._ranges = ranges or {}
        response = ApiVersionsResponse
        self._response = response(
            supported_features=[
                response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in (supported or {}).items()
            ],
            finalized_features=[
                response.FinalizedFeatureKey(name=name, min_version_level=low, max_version_level=high)
                for name, (low, high) in (finalized or {}).items()
            ],
            finalized_features_epoch=7,
        )

    async def features(self, node_id: int) -> Features:
        return Features(self._ranges, self._response)


def offer(upstream: Offering) -> Any:
    return answer(ApiVersions(upstream), ApiVersionsRequest(), ApiVersionsResponse, VERSION)


def api_keys(response: Any) -> set[int]:
    return {found.api_key for found in response.api_keys}


def supported(response: Any) -> dict[str, tuple[int, int]]:
    return {found.name: (found.min_version, found.max_version) for found in response.supported_features}


def finalized(response: Any) -> dict[str, tuple[int, int]]:
    return {found.name: (found.min_version_level, found.max_version_level) for found in response.finalized_features}


def test_transaction_version_is_capped_by_produce() -> None:
    """Both ends of its range are the finalized level, as in KRaft."""
    levels = {"transaction.version": (0, 2), "metadata.version": (7, 30)}
    response = offer(Offering(levels, {"transaction.version": (2, 2), "metadata.version": (30, 30)}))
    assert supported(response) == {"transaction.version": (0, 1), "metadata.version": (7, 30), "share.version": (1, 1)}
    assert finalized(response) == {
        "transaction.version": (1, 1),
        "metadata.version": (30, 30),
        "share.version": (1, 1),
    }
    assert response.finalized_features_epoch == 7


def test_transaction_version_below_the_cap_is_unchanged() -> None:
    response = offer(Offering({"transaction.version": (0, 1)}, {"transaction.version": (1, 1)}))
    assert supported(response)["transaction.version"] == (0, 1)
    assert finalized(response)["transaction.version"] == (1, 1)


def test_feature_that_begins_above_its_cap_is_omitted() -> None:
    """Its range would end before it begins, which Java clients do not survive."""
    response = offer(Offering({"transaction.version": (2, 3)}, {"transaction.version": (2, 3)}))
    assert "transaction.version" not in supported(response)
    assert finalized(response)["transaction.version"] == (1, 1)


def test_share_version_is_the_gateways() -> None:
    """They begin at 1: Java clients before 3.8 fail on a feature that begins at 0."""
    response = offer(Offering({"share.version": (0, 2)}, {"share.version": (2, 2)}))
    assert supported(response) == {"share.version": (1, 1)}
    assert finalized(response) == {"share.version": (1, 1)}


@pytest.mark.parametrize("key", [*BETWEEN_BROKERS, OF_A_LATER_RELEASE])
def test_api_without_a_rule_is_not_offered(key: int) -> None:
    """These are requests between brokers and APIs of later Kafka releases."""
    upstream = Offering(ranges=dict.fromkeys((LIST_OFFSETS, FIND_COORDINATOR, key), (1, 1)))
    assert api_keys(offer(upstream)) == {LIST_OFFSETS, FIND_COORDINATOR, *OWN_VERSIONS}


def test_api_with_a_rule_is_offered_up_to_the_rules_newest_version() -> None:
    """Kafka 4 offers Produce from 0 on for librdkafka, but supports only 3 and later."""
    upstream = Offering(ranges={LIST_OFFSETS: (0, 99)})
    offered = {found.api_key: (found.min_version, found.max_version) for found in offer(upstream).api_keys}
    assert offered[LIST_OFFSETS] == (0, ListOffsetsRequest.valid_versions[1])
