"""Messages of the share group RPCs are encoded and decoded in each version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.schemas import resources

from sharegroup.protocol import messages
from sharegroup.protocol.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatResponse,
)

CLASSES = [getattr(messages, name) for name in messages.__all__]
CASES = [(cls, v) for cls in CLASSES for v in range(cls.valid_versions[0], cls.valid_versions[1] + 1)]
Topic = ShareFetchResponse.ShareFetchableTopicResponse
Partition = Topic.PartitionData
VALUES = {
    "string": "süß",
    "bool": True,
    "int8": -3,
    "int16": 1234,
    "uint16": 65_000,
    "int32": -123456,
    "int64": 2**40,
    "uuid": uuid.UUID(int=7),
    "bytes": b"\x01\xfe",
    "records": b"\x00\xffbatch",
}


def filled(struct: Any, version: int) -> Any:
    """An instance of a message or nested class, with no field at its default, and lists of two entries."""
    values = {}
    for field in struct.fields.values():
        if not field.for_version_q(version):
            continue
        if field.is_struct():
            values[field.name] = filled(getattr(struct, field.type_str), version)
        elif field.is_struct_array():
            values[field.name] = [filled(getattr(struct, field.type_str), version) for _ in range(2)]
        elif field.is_array():
            values[field.name] = [VALUES[field.array_of.type_str]] * 2
        else:
            values[field.name] = VALUES[field.type_str]
    return struct(version=version, **values)


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda case: str(getattr(case, "__name__", case)))
def test_an_encoded_message_is_decoded(cls: Any, version: int) -> None:
    message = filled(cls, version)
    message.with_header(correlation_id=5)
    frame = bytes(message.encode(header=True, framed=True))
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    decoded = cls.decode(frame, version=version, header=True, framed=True)
    assert decoded.header.correlation_id == 5
    assert decoded.to_dict(json=False) == message.to_dict(json=False)


def test_the_keys_and_versions_are_those_of_kafka_4_3() -> None:
    assert {(cls.API_KEY, *cls.valid_versions) for cls in CLASSES} == {
        (38, 1, 3),
        (39, 1, 2),
        (40, 1, 2),
        (41, 1, 3),
        (64, 0, 0),
        (68, 0, 1),
        (69, 0, 1),
        (71, 0, 0),
        (76, 1, 1),
        (77, 1, 1),
        (78, 1, 2),
        (79, 1, 2),
        (80, 0, 1),
        (81, 0, 0),
        (88, 0, 0),
        (89, 0, 0),
        (90, 0, 1),
        (91, 0, 0),
        (92, 0, 0),
    }


def test_fields_of_later_versions_are_omitted() -> None:
    newest = filled(ShareFetchRequest, 2)
    older = ShareFetchRequest.decode(bytes(newest.encode(version=1)), version=1)
    assert older.max_records == newest.max_records
    assert older.share_acquire_mode == 0
    assert older.is_renew_ack is False


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("content", [b"", b"\x00" * 100_000])
def test_records_of_any_bytes_type_are_copied_unchanged(kind: Any, content: bytes) -> None:
    partition = Partition(
        partition_index=0,
        current_leader=Partition.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=kind(content),
        acquired_records=[],
    )
    response = ShareFetchResponse(version=2, responses=[Topic(partitions=[partition])], node_endpoints=[])
    decoded = ShareFetchResponse.decode(bytes(response.encode()), version=2)
    assert decoded.responses[0].partitions[0].records == content


def test_an_assignment_may_be_null() -> None:
    response = ShareGroupHeartbeatResponse(version=1, member_epoch=3, heartbeat_interval_ms=5000, assignment=None)
    assert ShareGroupHeartbeatResponse.decode(bytes(response.encode()), version=1).assignment is None


def test_messages_of_kafka_python_are_not_replaced() -> None:
    """Its clients find a response class by API key, and the last class that registers a key replaces the others."""
    from importlib.resources import files

    import kafka.protocol.generate_stubs as all_of_kafka_python

    for module in all_of_kafka_python.MESSAGE_MODULES:
        __import__(module)
    ours = {cls.API_KEY for cls in CLASSES}
    for api_key, cls in ResponseClassRegistry._response_class_registry.items():
        # If a single version of it was requested, the class of that version, a subclass, has the key.
        is_ours = any(base.__module__ == messages.__name__ for base in cls.__mro__)
        assert is_ours == (api_key in ours), cls.__name__
    theirs = {file.name for file in files(resources).iterdir()}
    assert not theirs & {f"{cls.__name__}.json" for cls in CLASSES}
