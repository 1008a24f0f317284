"""Encodes ShareFetch responses as a list of pieces, so that record batches are sent without being copied.

kafka-python's classes would copy them three times. One member may read hundreds of megabytes per second.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kafka.protocol.data_container import DataContainer

from sharegroup.kafka_clients.connections.headers import EncodedResponse, Piece, encode_varint
from sharegroup.protocol.messages import ShareFetchResponse

#: Pieces of at least this size are sent separately. Smaller pieces are copied, which costs less than a system call.
_LARGE_BYTES = 32_768
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iBih")  # correlation id, no tagged fields, throttle time, error
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_PARTITION = struct.Struct(">ih")
_LEADER = struct.Struct(">iiB")
_ACQUIRED = struct.Struct(">qqhB")
_NO_TAGS = b"\0"


@dataclass
class ShareFetchBytes(EncodedResponse):
    """A ShareFetch response of version 1 or 2. Both versions have the same layout.

    `records` maps (topic id, partition index) to record batches. `response` contains no records.
    """

    response: ShareFetchResponse
    records: Mapping[tuple[UUID, int], Sequence[memoryview]]

    def throttle(self, throttle_time_ms: int) -> None:
        self.response.throttle_time_ms = throttle_time_ms

    def pieces(self, correlation_id: int) -> list[Piece]:
        """Return the encoded response with its length and header, as pieces to be sent one after the other."""
        message, out = self.response, _Pieces()
        out.add(_HEAD.pack(correlation_id, 0, message.throttle_time_ms, message.error_code))
        out.add(_string(message.error_message), _INT32.pack(message.acquisition_lock_timeout_ms))
        out.add(encode_varint(len(message.responses) + 1))
        for topic in message.responses:
            out.add(topic.topic_id.bytes, encode_varint(len(topic.partitions) + 1))
            for partition in topic.partitions:
                _add_partition(out, partition, self.records.get((topic.topic_id, partition.partition_index), ()))
            out.add(_NO_TAGS)
        out.add(encode_varint(len(message.node_endpoints) + 1))
        for node in message.node_endpoints:
            out.add(_INT32.pack(node.node_id), _string(node.host), _INT32.pack(node.port), _string(node.rack), _NO_TAGS)
        out.add(_NO_TAGS)
        return out.framed()


class _Pieces:
    """Collects the pieces to send. Consecutive short pieces are joined. Long pieces are kept without being copied."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._short = bytearray(_LENGTH.size)
        self._size = 0

    def add(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            if len(part) < _LARGE_BYTES:
                self._short += part
            else:
                self._end_short()
                self._pieces.append(part)
                self._size += len(part)

    def framed(self) -> list[Piece]:
        """Return all pieces. The first piece begins with the size in bytes of everything after the length field."""
        self._end_short()
        first = self._pieces[0]
        assert isinstance(first, bytearray)
        _LENGTH.pack_into(first, 0, self._size - _LENGTH.size)
        return self._pieces

    def _end_short(self) -> None:
        if self._short:
            self._pieces.append(self._short)
            self._size += len(self._short)
            self._short = bytearray()


def _add_partition(out: _Pieces, partition: DataContainer, records: Sequence[memoryview]) -> None:
    leader = partition.current_leader
    out.add(
        _PARTITION.pack(partition.partition_index, partition.error_code),
        _string(partition.error_message),
        _INT16.pack(partition.acknowledge_error_code),
        _string(partition.acknowledge_error_message),
        _LEADER.pack(leader.leader_id, leader.leader_epoch, 0),
        encode_varint(sum(map(len, records)) + 1),
        *records,
        encode_varint(len(partition.acquired_records) + 1),
        *(
            _ACQUIRED.pack(acquired.first_offset, acquired.last_offset, acquired.delivery_count, 0)
            for acquired in partition.acquired_records
        ),
        _NO_TAGS,
    )


def _string(text: str | None) -> bytes:
    """Encode a compact nullable string."""
    if text is None:
        return b"\0"
    encoded = text.encode()
    return encode_varint(len(encoded) + 1) + encoded
