"""Messages of the share group RPCs (KIP-932, KIP-1206, KIP-1222, KIP-1226), and other messages that kafka-python lacks.

The classes support the stable message versions of Kafka 4.3. kafka-python generates each class from the JSON schema
file of the same name. A test compares these schemas with those in the kafka-clients JAR.

    response = ShareFetchResponse(version=2, error_code=0, ..., responses=[topic], node_endpoints=[])
    frame = response.encode(header=True, framed=True)     # after response.with_header(correlation_id)
    request = ShareFetchRequest.decode(body, version=2)

Rules for the use of kafka-python's messages:

- Nested structs are classes inside the message (`ShareFetchResponse.ShareFetchableTopicResponse.PartitionData`); dicts
  are not converted. A struct that is not nullable (`current_leader`) has no default and must be set.
- A list field that is not set is an empty list that all messages share. Assign a new list, and never append to it.
- `records` accepts bytes, bytearray or memoryview, which are copied unchanged. Use `b""` for no records, because null
  breaks clients.
- A null topic id (all zeros) is decoded as None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # stubs for messages with fields and nested classes of any name and type
    from typing import Self

    from kafka.protocol.api_message import ApiMessage as KafkaMessage
    from kafka.protocol.api_message import ApiMessageData
    from kafka.protocol.data_container import DataContainer

    class _NestedClasses(ApiMessageData):
        def __getattr__(self, name: str) -> type[Struct]: ...

    class Struct(DataContainer, metaclass=_NestedClasses):
        def __init__(self, **fields: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    class ApiMessage(KafkaMessage, metaclass=_NestedClasses):
        API_KEY: int
        API_VERSION: int
        valid_versions: tuple[int, int]

        def __init_subclass__(cls, load_json: str) -> None: ...
        def __init__(self, *, version: int | None = None, **fields: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def with_header(self, correlation_id: int = 0, client_id: str = "") -> None: ...
        def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytearray: ...
        @classmethod
        def decode(  # type: ignore[override]  # kafka-python's has more parameters
            cls, data: bytes | memoryview, version: int, header: bool = False, framed: bool = False
        ) -> Self: ...
else:
    from kafka.protocol.api_message import ApiMessage


class ShareGroupHeartbeatRequest(ApiMessage, load_json=__name__):
    """ShareGroupHeartbeat (76): a member joins (epoch 0), leaves (epoch -1) or sends a heartbeat."""


class ShareGroupHeartbeatResponse(ApiMessage, load_json=__name__):
    """ShareGroupHeartbeat (76): the member's epoch and, if it changed, its assignment."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):
    """ShareGroupDescribe (77): groups to describe, by id."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):
    """ShareGroupDescribe (77): groups with their members and assignments."""


class ShareFetchRequest(ApiMessage, load_json=__name__):
    """ShareFetch (78): a member fetches records, and may acknowledge records that it has acquired."""


class ShareFetchResponse(ApiMessage, load_json=__name__):
    """ShareFetch (78): record batches, the acquired offsets, and results of acknowledgements."""


class ShareAcknowledgeRequest(ApiMessage, load_json=__name__):
    """ShareAcknowledge (79): acknowledgements without a fetch."""


class ShareAcknowledgeResponse(ApiMessage, load_json=__name__):
    """ShareAcknowledge (79): one error code for each share-partition."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__name__):
    """DescribeShareGroupOffsets (90): topics to describe; null for all topics of the group."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__name__):
    """DescribeShareGroupOffsets (90): start offsets (-1 if there is none) and lags (-1 if unknown)."""


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=__name__):
    """AlterShareGroupOffsets (91): new start offsets for an empty group."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=__name__):
    """AlterShareGroupOffsets (91): one error code for each share-partition."""


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=__name__):
    """DeleteShareGroupOffsets (92): topics whose offsets are deleted from an empty group."""


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=__name__):
    """DeleteShareGroupOffsets (92): one error code for each topic."""


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):
    """ConsumerGroupDescribe (69, KIP-848): sent to brokers to determine the type of a group."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):
    """StreamsGroupDescribe (89, KIP-1071): sent to brokers to determine the type of a group."""


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__name__):
    """ConsumerGroupHeartbeat (68, KIP-848): a member of a consumer group joins, leaves or sends a heartbeat."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__name__):
    """ConsumerGroupHeartbeat (68): the member's epoch and, if it changed, its assignment."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):
    """ConsumerGroupDescribe (69): groups with their members and assignments."""


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=__name__):
    """StreamsGroupHeartbeat (88, KIP-1071): a streams group member joins with its topology, stays or leaves."""


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=__name__):
    """StreamsGroupHeartbeat (88): the member's epoch and tasks."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):
    """StreamsGroupDescribe (89): groups with their topologies, members and tasks."""


class GetTelemetrySubscriptionsRequest(ApiMessage, load_json=__name__):
    """GetTelemetrySubscriptions (71, KIP-714): a client requests its instance id."""


class GetTelemetrySubscriptionsResponse(ApiMessage, load_json=__name__):
    """GetTelemetrySubscriptions (71): the client's instance id, and the metrics that the broker collects."""


class CreateDelegationTokenResponse(ApiMessage, load_json=__name__):
    """CreateDelegationToken (38, KIP-48): a token or an error."""


class RenewDelegationTokenResponse(ApiMessage, load_json=__name__):
    """RenewDelegationToken (39): the new expiry time of a token."""


class ExpireDelegationTokenResponse(ApiMessage, load_json=__name__):
    """ExpireDelegationToken (40): the new expiry time of a token."""


class DescribeDelegationTokenResponse(ApiMessage, load_json=__name__):
    """DescribeDelegationToken (41): tokens with their owners and expiry times."""


class UnregisterBrokerResponse(ApiMessage, load_json=__name__):
    """UnregisterBroker (64): whether a broker was unregistered."""


class AddRaftVoterResponse(ApiMessage, load_json=__name__):
    """AddRaftVoter (80): whether a voter was added to the quorum."""


class RemoveRaftVoterResponse(ApiMessage, load_json=__name__):
    """RemoveRaftVoter (81): whether a voter was removed from the quorum."""


__all__ = [
    "AddRaftVoterResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreateDelegationTokenResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DescribeDelegationTokenResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "ExpireDelegationTokenResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "RemoveRaftVoterResponse",
    "RenewDelegationTokenResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "UnregisterBrokerResponse",
]
