"""ApiVersions: returns the versions of the upstream broker, limited to those that the gateway supports.

The share APIs and the other APIs that the gateway handles itself are added.
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
    3: (0, 13),  # Metadata: librdkafka aborts its process below 12
    16: (0, 5),  # ListGroups: clients request share groups by type
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
#: Highest versions of forwarded or rewritten APIs. Newer versions have broker addresses in tagged fields, or are not
#: supported by the classes that rewrite them.
VERSION_CAPS = {PRODUCE: 9, FETCH: 15, 10: 6, 55: 1, 60: 2}
#: FindCoordinator and DescribeCluster, which the gateway handles itself in the versions that the broker offers.
REWRITTEN = frozenset({10, 60})
#: Highest feature levels. From transaction.version 2 on, clients omit AddPartitionsToTxn and require a version of
#: Produce that is above its entry in `VERSION_CAPS`.
FEATURE_CAPS = {"transaction.version": 1}
#: The version range of an API that is not offered.
NO_VERSIONS = (0, -1)


class ApiVersions:
    """The handler of ApiVersions."""

    def __init__(self, cluster: UpstreamCluster) -> None:
        self._cluster = cluster

    async def __call__(self, request: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
        """Return the offered versions.

        A request of an unknown version is not passed to this handler; `RequestLoop` responds with
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
    """Return those APIs of a broker that clients may use through the gateway: {api key: (min, max)}."""
    ranges = {key: offered_range(offered, key) for key in offered.ranges}
    return {key: (low, high) for key, (low, high) in ranges.items() if low <= high}


def offered_range(offered: Features, key: int) -> tuple[int, int]:
    """Return the versions of an API that clients may use, as (min, max); max is below min if there are none.

    An API is offered if `passthrough.rules` has a rule for it, up to the newest version that the rule supports, or if
    the gateway rewrites it. APIs between brokers and APIs of later Kafka releases are not offered. The oldest version
    is the broker's: Kafka 4 offers Produce from version 0 for old versions of librdkafka, but supports only version 3
    and later.
    """
    rule = RULES.get(key)
    if rule is None and key not in REWRITTEN:
        return NO_VERSIONS
    low, high = offered.ranges.get(key, NO_VERSIONS)
    _, newest = (rule.versions if rule is not None else None) or (low, high)
    return low, min(high, newest, VERSION_CAPS.get(key, high))


def supported_features(upstream: ApiVersionsResponse) -> list[ApiVersionsResponse.SupportedFeatureKey]:
    """Return the upstream's features up to their caps, and `share.version`.

    Features whose lowest level is above their cap are omitted. No feature has 0 as its lowest level, because the
    gateway's own upstream request has a version in which brokers omit those. Java clients before 3.8 fail on them.
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
    """Return the upstream's finalized features up to their caps, and `share.version`.

    KRaft brokers use a feature's level as both ends of its range.
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
    """Return the response to a request of an unknown version, in version 0 (KIP-511). The client then retries."""
    low, high = OWN_VERSIONS[API_VERSIONS]
    known = ApiVersionsResponse.ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[known])
