"""ShareFetch responses in pieces: byte for byte what kafka-python encodes, without copies of large batches."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

from sharegroup.gateway.wire.share_fetch_bytes import ShareFetchBytes
from sharegroup.kafka_clients.connections.headers import encode_response
from sharegroup.protocol.messages import ShareFetchResponse

Topic = ShareFetchResponse.ShareFetchableTopicResponse
Partition = Topic.PartitionData
#: The lengths as varints take one to three bytes; from 32,768 bytes on a batch is a piece of its own.
SIZES = (0, 1, 126, 127, 128, 16_382, 16_383, 32_767, 32_768, 70_000)


def batches(rng: random.Random) -> list[memoryview]:
    return [memoryview(rng.randbytes(rng.choice(SIZES))) for _ in range(rng.choice((0, 1, 1, 3)))]


def text(rng: random.Random) -> str | None:
    return rng.choice((None, "", "süß", "x" * 130))


def partition(index: int, rng: random.Random) -> Any:
    return Partition(
        partition_index=index,
        error_code=rng.choice((0, 6)),
        error_message=text(rng),
        acknowledge_error_code=rng.choice((0, 121)),
        acknowledge_error_message=text(rng),
        current_leader=Partition.LeaderIdAndEpoch(leader_id=rng.choice((-1, 3)), leader_epoch=rng.choice((-1, 7))),
        records=b"",
        acquired_records=[
            Partition.AcquiredRecords(first_offset=first, last_offset=first + 2**33, delivery_count=rng.randrange(9))
            for first in rng.sample(range(2**40), rng.choice((0, 1, 200)))
        ],
    )


def some_response(rng: random.Random) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time_ms=rng.choice((0, 12)),
        error_code=rng.choice((0, 122)),
        error_message=text(rng),
        acquisition_lock_timeout_ms=rng.randrange(60_000),
        responses=[
            Topic(
                topic_id=uuid.UUID(int=rng.getrandbits(128)),
                partitions=[partition(index, rng) for index in rng.sample(range(2**31), rng.randrange(4))],
            )
            for _ in range(rng.randrange(3))
        ],
        node_endpoints=[
            ShareFetchResponse.NodeEndpoint(node_id=node, host="host", port=9092 + node, rack=text(rng))
            for node in range(rng.randrange(3))
        ],
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_encodes_as_kafka_python_does(seed: int, version: int) -> None:
    rng = random.Random(seed)
    response = some_response(rng)
    records = {
        (topic.topic_id, partition.partition_index): batches(rng)
        for topic in response.responses
        for partition in topic.partitions
    }
    pieces = ShareFetchBytes(response, records).pieces(correlation_id=seed)
    sent = b"".join(pieces)
    for topic in response.responses:
        for part in topic.partitions:
            part.records = b"".join(records[topic.topic_id, part.partition_index])
    assert sent == encode_response(response, version, seed)
    large = [batch for found in records.values() for batch in found if len(batch) >= SIZES[-2]]
    assert all(any(piece is batch for piece in pieces) for batch in large)  # not copied
    assert len(pieces) <= 2 * len(large) + 1


def test_throttle_time_is_encoded() -> None:
    response = some_response(random.Random(1))
    encoded = ShareFetchBytes(response, {})
    encoded.throttle(250)
    assert b"".join(encoded.pieces(9)) == encode_response(response, 2, 9)
    assert response.throttle_time_ms == 250
