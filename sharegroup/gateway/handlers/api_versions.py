"""Handles ApiVersions: returns the upstream broker's API versions, limited to those that the gateway supports.

The response also contains the APIs that the gateway handles itself, such as the share APIs.
"""

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.first_available_broker import request_any_broker
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import Features

API_VERSIONS = 18
PRODUCE, FETCH = 0, 1
SHARE_VERSION = "share.version"

#: Versions of the APIs that the gateway handles itself, whatever the broker offers: {api key: (min, max)}.
OWN_VERSIONS = {
    3: (0, 13),  # Metadata: librdkafka aborts its process if the maximum is below 12
    16: (0, 5),  # ListGroups: from version 5 on, clients can request groups by type
    17: (0, 1),  # SaslHandshake
    API_VERSIONS: (0, 4),
    32: (1, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    36: (0, 2),  # SaslAuthenticate
    42: (0, 2),  # DeleteGroups
    44: (0, 1),  # IncrementalAlterConfigs
    74: (0, 1),  # ListConfigResources
    76: (1, 1),  # ShareGroupHeartbeat
    77: (1, 1),  # ShareGroupDescribe
    78: (1, 2),  # ShareFetch
    79: (1, 2),  # ShareAcknowledge
    90: (0, 1),  # DescribeShareGroupOffsets
    91: (0, 0),  # AlterShareGroupOffsets
    92: (0, 0),  # DeleteShareGroupOffsets
}
#: {api key: highest version that clients may use}. The gateway cannot rewrite the responses of newer versions, or these
#: responses contain broker addresses in tagged fields.
VERSION_CAPS = {PRODUCE: 9, FETCH: 15, 10: 6, 55: 1, 60: 2}
#: FindCoordinator and DescribeCluster, which the gateway handles itself in the versions that the broker offers.
REWRITTEN = frozenset({10, 60})
#: {feature: highest offered level}. From transaction.version 2 on, clients omit AddPartitionsToTxn. They then require a
#: version of Produce that is above the cap in `VERSION_CAPS`.
FEATURE_CAPS = {"transaction.version": 1}
#: The version range of an API that is not offered.
NO_VERSIONS = (0, -1)


class ApiVersions:
    """The handler of ApiVersions."""

    def __init__(self, cluster: UpstreamCluster) -> None:
        self._cluster = cluster

    async def __call__(self, request: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
        """Return the API versions and features that clients may use.

        Requests of unknown versions do not reach this handler. `RequestLoop` answers them with
        `unsupported_version_response`.
        """
        offered = await request_any_broker(self._cluster, request.caller.node_id, self._cluster.features)
        forwarded = forwarded_versions(offered)
        response = ApiVersionsResponse
        return response(
            error_code=0,
            api_keys=[
                response.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in sorted((forwarded | OWN_VERSIONS).items())
            ],
            throttle_time_ms=0,
            supported_features=supported_features(offered.response),
            finalized_features_epoch=max(0, getattr(offered.response, "finalized_features_epoch", 0) or 0),
            finalized_features=finalized_features(offered.response),
        )


def forwarded_versions(offered: Features) -> dict[int, tuple[int, int]]:
    """Return the API versions of a broker that clients may use through the gateway, as {api key: (min, max)}.

    `offered` contains the versions that the broker supports. APIs without a usable version are left out.
    """
    ranges = {key: offered_range(offered, key) for key in offered.ranges}
    return {key: (low, high) for key, (low, high) in ranges.items() if low <= high}


def offered_range(offered: Features, key: int) -> tuple[int, int]:
    """Return the versions of a broker's API that clients may use, as (min, max); max is below min if there are none.

    Clients may use an API if `passthrough.rules` has a rule for it, or if it is in `REWRITTEN`. They cannot use APIs
    between brokers and APIs of later Kafka releases. The APIs in `OWN_VERSIONS` do not depend on the broker, so the
    result does not apply to them. The newest version is limited by the rule and by `VERSION_CAPS`.

    The minimum is the one in the broker's ApiVersions response, even if the broker does not support this version. For
    Produce, Kafka 4 returns the minimum 0, although it supports only version 3 and later. Old versions of librdkafka
    require the 0.
    """
    rule = RULES.get(key)
    if rule is None and key not in REWRITTEN:
        return NO_VERSIONS
    low, high = offered.ranges.get(key, NO_VERSIONS)
    _, newest = (rule.versions if rule is not None else None) or (low, high)
    return low, min(high, newest, VERSION_CAPS.get(key, high))


def supported_features(upstream: ApiVersionsResponse) -> list[ApiVersionsResponse.SupportedFeatureKey]:
    """Return the broker's features with levels limited to `FEATURE_CAPS`, and the gateway's own `share.version`.

    `upstream` is the broker's response. A feature whose lowest level is above its cap is left out.

    Java clients before 3.8 fail on features whose lowest level is 0. The result contains no such feature, because the
    gateway requests a version of ApiVersions in which brokers leave them out.
    """
    feature = ApiVersionsResponse.SupportedFeatureKey
    capped = [
        feature(name=found.name, min_version=found.min_version, max_version=_capped(found.name, found.max_version))
        for found in upstream.supported_features or ()
        if found.name != SHARE_VERSION
    ]
    share_version = feature(name=SHARE_VERSION, min_version=1, max_version=1)
    return [*(found for found in capped if found.min_version <= found.max_version), share_version]


def finalized_features(upstream: ApiVersionsResponse) -> list[ApiVersionsResponse.FinalizedFeatureKey]:
    """Return the broker's finalized features with levels limited to `FEATURE_CAPS`, and the gateway's `share.version`.

    `upstream` is the broker's response. KRaft brokers return a feature's level as both its minimum and its maximum.
    Therefore, both are limited.
    """
    feature = ApiVersionsResponse.FinalizedFeatureKey
    capped = [
        feature(
            name=found.name,
            min_version_level=_capped(found.name, found.min_version_level),
            max_version_level=_capped(found.name, found.max_version_level),
        )
        for found in upstream.finalized_features or ()
        if found.name != SHARE_VERSION
    ]
    return [*capped, feature(name=SHARE_VERSION, min_version_level=1, max_version_level=1)]


def _capped(feature: str, level: int) -> int:
    return min(level, FEATURE_CAPS.get(feature, level))


def unsupported_version_response() -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unknown version (KIP-511). It is encoded as version 0.

    The client then repeats the request in a version that the response contains.
    """
    low, high = OWN_VERSIONS[API_VERSIONS]
    known = ApiVersionsResponse.ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[known])
