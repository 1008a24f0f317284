"""A driver that calls a ShareGroup as the operator does: handler, apply, assignor, and it keeps the table rows."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sharegroup.config import Config, GroupConfig
from sharegroup.core.group_coordinator import CoordinatorResult, ShareGroup
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import Record, ShareGroupRecord, SoftRecord, TableRecord
from sharegroup.core.operators.share_group.group_rows import table_records, table_row
from sharegroup.protocol.rows.share_group_requests import AdministratorRequest, HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse, ShareGroupResponse
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES

GROUP = "orders-readers"
#: Every member reads every partition immediately, because other tests cover the assignment.
CONFIG = dataclasses.replace(Config().group_config(GROUP), max_size=3, assignment_interval_ms=0, assignor="all")
ORDERS = {"orders": TopicMetadata("id-orders", 2)}
ORDERS_AND_BILLS = {**ORDERS, "bills": TopicMetadata("id-bills", 1)}


def request(
    member_id: str,
    member_epoch: int,
    topics: Sequence[str] | None = None,
    metadata: Mapping[str, TopicMetadata] | None = None,
    rack_id: str | None = None,
    group_id: str = GROUP,
    instance: str | None = None,
    incarnation: str | None = None,
    id_: str | None = None,
) -> HeartbeatRequest:
    """Return a heartbeat; `topics` is None if the subscription is not repeated."""
    return HeartbeatRequest(
        id_ or f"request-{member_id}",
        group_id,
        "gateway-1",
        member_id=member_id,
        member_epoch=member_epoch,
        rack_id=rack_id,
        client_id="client",
        client_host="/10.0.0.1",
        subscribed_topic_names=None if topics is None else tuple(topics),
        topics=metadata or {},
        group_instance_id=instance,
        incarnation_id=incarnation,
    )


class Driver:
    """A group with a clock that the test moves. `records` are all records so far, in order."""

    def __init__(self, config: GroupConfig = CONFIG, group_id: str = GROUP) -> None:
        self.config = config
        self.group = ShareGroup(GroupMetadata(group_id))
        self.records: list[Record] = []
        self.now_ms = 1_000_000
        self.last = CoordinatorResult()

    def apply(self, result: CoordinatorResult) -> CoordinatorResult:
        self._take(result)
        update = self.group.update_assignment(self.now_ms, self.config)
        self._take(update)
        kept = [record for record in result.records if not (update.records and isinstance(record, ShareGroupRecord))]
        self.last = result._replace(
            records=(*kept, *update.records), soft_records=(*result.soft_records, *update.soft_records)
        )
        return self.last

    def _take(self, result: CoordinatorResult) -> None:
        self.group.apply(result)
        self.records += (*result.records, *result.soft_records)

    @property
    def rows(self) -> list[TableRecord]:
        """The rows that the tables would have."""
        return [record for record in self.records if not isinstance(record, SoftRecord)]

    def send(self, heartbeat: HeartbeatRequest) -> HeartbeatResponse:
        """Apply a heartbeat and return its response."""
        response = self.apply(self.group.heartbeat(heartbeat, self.now_ms, self.config)).response
        assert isinstance(response, HeartbeatResponse)
        return response

    def administer(self, request: AdministratorRequest, job: Config | None = None) -> ShareGroupResponse:
        """Apply an administrator's request and return its response."""
        response = self.apply(self.group.administer(request, job or Config(), self.now_ms, self.now_ms)).response
        assert response is not None
        return response

    def group_tables(self) -> list[TableRecord]:
        """Return the records of the tables: converted to rows and back, the last one of each key, no tombstones."""
        keys = {spec.name: spec.key for spec in GROUP_COORDINATOR_TABLES}
        tables: dict[str, dict[tuple[object, ...], dict[str, Any]]] = {name: {} for name in keys}
        for record in self.rows:
            name, row = table_row(record)
            key = tuple(row[column] for column in keys[name])
            tables[name].pop(key, None)
            if not row.get("_deleted"):
                tables[name][key] = row
        return table_records({name: list(rows.values()) for name, rows in tables.items()})

    def join(
        self, member_id: str, topics: Sequence[str] = ("orders",), metadata: Mapping[str, TopicMetadata] = ORDERS
    ) -> HeartbeatResponse:
        return self.send(request(member_id, 0, topics, metadata))

    def beat(self, member_id: str) -> HeartbeatResponse:
        """Apply a heartbeat with the member's current epoch."""
        return self.send(request(member_id, self.group.metadata.members[member_id].member_epoch))

    def leave(self, member_id: str) -> HeartbeatResponse:
        return self.send(request(member_id, -1))

    def initialize_all(self) -> CoordinatorResult:
        """Apply the share_partition query's notice for every share-partition."""
        known = self.group.metadata.share_partitions.values()
        notices = [(r.topic_id, r.partition, r.state_epoch) for records in known for r in records.values()]
        return self.apply(self.group.handle_initialized(notices, self.now_ms))

    def topics_deleted(self, *topic_ids: str) -> CoordinatorResult:
        """Apply the share_partition query's notice that these topics were deleted."""
        return self.apply(self.group.handle_topic_deleted(topic_ids, self.now_ms))

    def expire(self) -> CoordinatorResult:
        return self.apply(self.group.expire(self.now_ms))

    def through_json(self) -> ShareGroup:
        """Restore the group from its state."""
        return ShareGroup.restore(GROUP, json.loads(json.dumps(self.group.dump())))

    def epochs(self) -> tuple[int, int, dict[str, int]]:
        """Return the group epoch, the assignment epoch, and each member's epoch."""
        group = self.group.metadata
        return group.group_epoch, group.assignment_epoch, {m.member_id: m.member_epoch for m in group.members.values()}
