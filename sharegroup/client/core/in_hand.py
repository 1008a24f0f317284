"""The records in hand: the application has received them, but their acknowledgements have not been sent.

A record is added when it is delivered, and removed when its acknowledgement is about to be sent. After a renewal
(RENEW), the record is in hand again as soon as the server has renewed its lock. As in Java, the application receives a
renewed record a second time. If `keeps_renewed` is set, this does not happen, because the application still has the
record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sharegroup.client.core.acknowledgements import AcknowledgeResult, Types
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import Possession, Record, TopicIdPartition
from sharegroup.errors import ErrorCode
from sharegroup.types import AcknowledgeType

#: The acknowledge types that an application can choose.
CHOICES = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)

_source = attrgetter("delivery.source")


class Taken(NamedTuple):
    """Acknowledgements of one partition to send to one node."""

    node_id: int
    source: TopicIdPartition
    types: Types


class InHand:
    """The records in hand: the application has received them, and their acknowledgements have not been sent yet.

    `keeps_renewed` means that the application keeps renewed records, so it does not receive them a second time.
    """

    def __init__(self, keeps_renewed: bool = False) -> None:
        self.keeps_renewed = keeps_renewed
        self._records: dict[TopicIdPartition, dict[int, Record[Any]]] = {}
        self._types: dict[TopicIdPartition, Types] = {}
        self._renewing: dict[TopicIdPartition, dict[int, Record[Any]]] = {}

    def __len__(self) -> int:
        return sum(len(records) for records in self._records.values())

    @property
    def unacknowledged(self) -> int:
        """The number of records in hand that the application has not acknowledged yet."""
        return len(self) - sum(len(types) for types in self._types.values())

    def deliver(self, records: Iterable[Record[Any]]) -> None:
        """Add delivered records.

        A record that is delivered again replaces its earlier delivery and removes that delivery's acknowledgement.
        """
        for source, run in groupby(records, _source):  # a source is looked up once a run: its hash is slow
            new = {record.offset: record for record in run}
            self._records.setdefault(source, {}).update(new)
            types = self._types.get(source, {})
            for offset in types.keys() & new.keys():
                del types[offset]

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType) -> None:
        """Set how a record is acknowledged. A later call replaces the acknowledge type.

        Raises IllegalStateError if the record is not in hand, was delivered again, or cannot be acknowledged as `kind`.
        """
        source = record.delivery.source
        held = self._records.get(source, {}).get(record.offset)
        if held is None or held.delivery_count != record.delivery_count:
            raise _unknown(record.topic, record.partition, record.offset)
        self._choose(source, record.offset, kind)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Set how the record at an offset is acknowledged.

        Raises IllegalStateError if the record is not in hand, or cannot be acknowledged as `kind`.
        """
        for source, records in self._records.items():
            if source.topic == topic and source.partition == partition and offset in records:
                self._choose(source, offset, kind)
                return
        raise _unknown(topic, partition, offset)

    def possession(self, record: Record[Any]) -> Possession:
        """Return whether this delivery of the record is in hand, is being renewed, or is lost."""
        source = record.delivery.source
        if self._records.get(source, {}).get(record.offset) is record:
            return Possession.HELD
        is_renewing = self._renewing.get(source, {}).get(record.offset) is record
        return Possession.RENEWING if is_renewing else Possession.LOST

    def remove(self, record: Record[Any]) -> None:
        """Remove a record, together with the acknowledgement that the application may have chosen."""
        source = record.delivery.source
        records = self._records[source]
        del records[record.offset]
        self._types.get(source, {}).pop(record.offset, None)
        if not records:
            del self._records[source]

    def accept_all(self) -> None:
        """Set ACCEPT for all records in hand (implicit mode)."""
        for source, records in self._records.items():
            self._types[source] = dict.fromkeys(records, AcknowledgeType.ACCEPT)

    def take(self) -> list[Taken]:
        """Remove the acknowledged records. Return their acknowledgements, one `Taken` for each partition and node."""
        taken: list[Taken] = []
        for source, types in self._types.items():
            records = self._records[source]
            by_node: dict[int, Types] = {}
            for offset, kind in types.items():
                record = records.pop(offset)
                by_node.setdefault(record.delivery.node_id, {})[offset] = kind
                if kind is AcknowledgeType.RENEW:
                    self._renewing.setdefault(source, {})[offset] = record
            if not records:
                del self._records[source]
            taken += [Taken(node_id, source, of_node) for node_id, of_node in by_node.items()]
        self._types = {}
        return taken

    def on_result(self, result: AcknowledgeResult, now_ms: int) -> list[Record[Any]]:
        """Apply the result of renewals. Return the renewed records that the application must receive again.

        With `keeps_renewed`, the renewed records are in hand again and none are returned. If the renewal failed, its
        records are lost.
        """
        renewing = self._renewing.get(result.source)
        if renewing is None:
            return []
        renewed = [renewing.pop(offset) for offset in result.types if offset in renewing]
        if result.error is not None:
            # The lock is still there if only the renewal was refused, for example because the group allows none.
            if self.keeps_renewed and result.error.code is ErrorCode.INVALID_RECORD_STATE:
                self.deliver(record for record in renewed if (record.delivery.lock_until_ms or 0) > now_ms)
            return []
        for record in renewed:
            until_ms = now_ms + result.lock_timeout_ms if result.lock_timeout_ms else None
            record.delivery = record.delivery._replace(lock_until_ms=until_ms)
        if self.keeps_renewed:
            self.deliver(renewed)
            return []
        return renewed

    def forget(self) -> Collection[Record[Any]]:
        """Remove all records without acknowledging them, and return those in hand. The server releases them."""
        records = [record for records in self._records.values() for record in records.values()]
        self._records, self._types, self._renewing = {}, {}, {}
        return records

    def _choose(self, source: TopicIdPartition, offset: int, kind: AcknowledgeType) -> None:
        if kind not in CHOICES:
            raise IllegalStateError(f"a record cannot be acknowledged as {kind!r}")
        self._types.setdefault(source, {})[offset] = AcknowledgeType(kind)


def _unknown(topic: str, partition: int, offset: int) -> IllegalStateError:
    return IllegalStateError(f"the record {topic}-{partition} offset {offset} is not waiting to be acknowledged")
