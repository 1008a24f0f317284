"""How a share-partition is named in rows: the one module of the members that knows the rows' fields."""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.protocol.request_rows import SharePartitionRequest
from sharegroup.protocol.response_rows import ShareGroupResponse, SharePartitionResponse
from sharegroup.testkit.simulation.judge import Key
from sharegroup.types import AcknowledgementBatch, AcquiredRange


def request(kind: str, request_id: str, key: Key, member_id: str, epoch: int, reply_to: str) -> SharePartitionRequest:
    """A request for a share-partition."""
    return SharePartitionRequest(
        kind, request_id, key.group_id, key.topic, key.topic_id, key.partition, member_id, epoch, reply_to
    )


def acknowledgement(
    made: SharePartitionRequest,
    batches: tuple[AcknowledgementBatch, ...],
    acquired: tuple[AcquiredRange, ...],
    lock_deadline_ms: int,
) -> SharePartitionRequest:
    """The request with what it acknowledges, of which grants, and until when their locks last."""
    return made._replace(batches=batches, acquired=acquired, lock_deadline_ms=lock_deadline_ms)


def assigned_topics(response: ShareGroupResponse) -> Iterator[tuple[str, str, list[int]]]:
    """(topic, topic id, partitions) of an assignment."""
    for topic, (topic_id, partitions) in (response.assignment or {}).items():
        yield topic, topic_id, partitions


def response_key(named: Key | SharePartitionResponse) -> tuple[str, str, int]:
    """What a response and a share-partition have in common."""
    return named.group_id, named.topic_id, named.partition
