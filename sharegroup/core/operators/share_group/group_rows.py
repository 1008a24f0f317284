"""Conversion between the records of a group and rows of the job's tables."""

from typing import Any

from sharegroup.core.group_coordinator.records import (
    GroupState,
    ShareGroupConfigRecord,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TableRecord,
    TopicPartitions,
)
from sharegroup.types import LAST_ALTERED, ConfigSource

_DYNAMIC = ConfigSource.DYNAMIC_GROUP_CONFIG.value
#: A row with this field deletes the table row with the same key.
_DELETED = "_deleted"


def table_row(record: TableRecord) -> tuple[str, dict[str, Any]]:
    """Return the name of the record's table, and the record as a row of this table.

    A tombstone becomes a row that deletes the table row with the same key.
    """
    if isinstance(record, ShareGroupConfigRecord):
        row = {**record._asdict(), "config_source": _DYNAMIC}
        return "share_group_configs", row if record.config_value is not None else {**row, _DELETED: True}
    row = record._asdict()
    if row.pop("is_tombstone"):
        row[_DELETED] = True
    if isinstance(record, ShareGroupRecord):
        return "share_groups", {**row, "group_state": record.group_state.value}
    if isinstance(record, SharePartitionRecord):
        return "share_partitions", {**row, "status": record.status.value}
    row.pop("previous_member_epoch")
    row["subscribed_topic_names"] = list(record.subscribed_topic_names)
    row["assignment"] = [{**item._asdict(), "partitions": list(item.partitions)} for item in record.assignment]
    return "share_group_members", row


def altered_row(group_id: str, altered_ms: int) -> tuple[str, dict[str, Any]]:
    """Return the name of the table of configs, and a row with the time of the group's last config change.

    The time lets share-partitions ignore older changes that arrive late. The row therefore stays in the table when all
    configs of the group are removed.
    """
    row = {"group_id": group_id, "config_name": "", "config_value": str(altered_ms), "config_source": LAST_ALTERED}
    return "share_group_configs", row


def table_records(tables: dict[str, list[dict[str, Any]]]) -> list[TableRecord]:
    """Return the records that a group's table rows contain.

    This is the inverse of `table_row`, but tables contain neither tombstones nor a member's previous epoch. `tables`
    has the rows by table name. Config rows whose source is not DYNAMIC_GROUP_CONFIG have no record.
    """
    records: list[TableRecord] = [
        ShareGroupRecord(row["group_id"], row["group_epoch"], row["assignment_epoch"], GroupState(row["group_state"]))
        for row in tables.get("share_groups", ())
    ]
    records += [
        SharePartitionRecord(**{**row, "status": SharePartitionStatus(row["status"])})
        for row in tables.get("share_partitions", ())
    ]
    records += [
        ShareGroupMemberRecord(
            **{
                **row,
                "subscribed_topic_names": tuple(row["subscribed_topic_names"]),
                "assignment": tuple(
                    TopicPartitions(item["topic"], item["topic_id"], tuple(item["partitions"]))
                    for item in row["assignment"]
                ),
            }
        )
        for row in tables.get("share_group_members", ())
    ]
    records += [
        ShareGroupConfigRecord(row["group_id"], row["config_name"], row["config_value"])
        for row in tables.get("share_group_configs", ())
        if row["config_source"] == _DYNAMIC
    ]
    return records
