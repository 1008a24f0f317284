"""Acknowledgements that are being sent to a broker, and their results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.client.records import TopicIdPartition
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import AcknowledgementBatch, AcknowledgeType

#: {offset: acknowledge type}
Types = dict[int, AcknowledgeType]

#: Retriable errors after which acknowledgements are nevertheless not sent again, because the locks have been released.
_LOCKS_GONE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class Acknowledgements(NamedTuple):
    """Acknowledgements of the partition `source`. After a retriable error, they are sent again until `deadline_ms`.

    `unused` contains the offsets of records that the application has not used. A gateway does not count the delivery of
    these records.
    """

    source: TopicIdPartition
    types: Types
    deadline_ms: int
    unused: Collection[int] = ()

    def followed_by(self, newer: Acknowledgements) -> Acknowledgements:
        """Return both sets of acknowledgements as one, with the deadline of `newer`.

        For an offset that is in both, the type in `newer` applies.
        """
        unused = {*self.unused}.difference(newer.types).union(newer.unused)
        return newer._replace(types={**self.types, **newer.types}, unused=unused)

    @property
    def has_renewals(self) -> bool:
        """Whether any of the acknowledgements is a renewal (RENEW)."""
        return AcknowledgeType.RENEW in self.types.values()

    def may_retry(self, code: ErrorCode, now_ms: int) -> bool:
        """Return whether the acknowledgements may be sent again after the partition returned this error."""
        return code.retriable and code not in _LOCKS_GONE and now_ms < self.deadline_ms


class AcknowledgeResult(NamedTuple):
    """The result of acknowledgements of the partition `source`.

    `error` is None for success. `lock_timeout_ms` is the lock timeout of renewed records; 0 if it is not known.
    """

    source: TopicIdPartition
    types: Types
    error: RequestError | None
    lock_timeout_ms: int = 0


def batches_of(types: Mapping[int, AcknowledgeType], unused: Collection[int] = ()) -> Iterator[AcknowledgementBatch]:
    """Yield acknowledgement batches for {offset: type}, in the order of the offsets. A batch has no missing offsets.

    A batch has one type for all offsets, or one for each offset. Offsets in `unused` are never in the same
    batch as other offsets, because a request marks whole batches as unused.
    """
    offsets = sorted(types)
    start = 0
    for end in range(1, len(offsets) + 1):
        if end == len(offsets) or offsets[end] != offsets[end - 1] + 1 or _differ(unused, offsets[end - 1]):
            kinds = [types[offset] for offset in offsets[start:end]]
            kinds = kinds if kinds.count(kinds[0]) < len(kinds) else kinds[:1]
            yield AcknowledgementBatch(offsets[start], offsets[end - 1], tuple(map(int, kinds)))
            start = end


def _differ(unused: Collection[int], offset: int) -> bool:
    """Return whether exactly one of `offset` and `offset + 1` is in `unused`."""
    return bool(unused) and (offset in unused) != (offset + 1 in unused)


def topics_of(
    topic: Any,
    partition: Any,
    sources: Iterable[TopicIdPartition],
    acknowledged: Mapping[TopicIdPartition, Acknowledgements],
) -> list[Any]:
    """Return the Topics field of a request. It has the partitions `sources` and all partitions with acknowledgements.

    `topic` and `partition` are the request's message classes for entries of the field.
    """
    by_topic: dict[UUID, list[Any]] = {}
    for source in dict.fromkeys([*sources, *acknowledged]):
        _, types, _, unused = acknowledged.get(source) or Acknowledgements(source, {}, 0)
        batches = [
            partition.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(kinds), is_unused=first in unused
            )
            for first, last, kinds in batches_of(types, unused)
        ]
        by_topic.setdefault(source.topic_id, []).append(
            partition(partition_index=source.partition, acknowledgement_batches=batches)
        )
    return [topic(topic_id=topic_id, partitions=parts) for topic_id, parts in by_topic.items()]
