"""Log lines about what a micro-batch of the group_coordinator query changed.

The lines report:

- members that joined, left, timed out, were removed or were fenced, and static members that restart;
- groups that are empty or deleted;
- topics and share-partitions that were added, are ready, or are removed.

Lines about fenced members are made from responses. All other lines are made only where a row differs from the table's
row, so a repeated batch, which finds its own rows in the tables, does not log them again. Most batches log nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.core.group_coordinator.records import GroupState, SharePartitionStatus
from sharegroup.errors import ErrorCode
from sharegroup.job.commit.table_rows import DELETED
from sharegroup.log_fields import LogFields
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.share_group_requests import HEARTBEAT
from sharegroup.storage.schemas import SHARE_GROUP_MEMBERS, SHARE_GROUPS, SHARE_PARTITIONS, TableSpec
from sharegroup.storage.writing.versioned_table import Row

_LEAVES = -1
#: The line that is logged when a group's state changes, by the new state.
_OF_GROUPS = {
    GroupState.EMPTY.value: "group %(group)s is empty: its last member has left",
    GroupState.DEAD.value: "group %(group)s is deleted",
}
#: The line that is logged when the status of a topic's share-partitions changes, by the new status.
_OF_TOPICS = {
    SharePartitionStatus.INITIALIZING.value: "group %(group)s: initializing topic %(topic)s "
    "(id %(topic_id)s), partitions %(partitions)s",
    SharePartitionStatus.INITIALIZED.value: "group %(group)s: initialized topic %(topic)s "
    "(id %(topic_id)s), partitions %(partitions)s",
    SharePartitionStatus.DELETING.value: "group %(group)s: removing topic %(topic)s "
    "(id %(topic_id)s), partitions %(partitions)s",
}

FindRow = Callable[[str, Row], Row | None]


class LogLine(NamedTuple):
    """A log line: a text with placeholders, and their values.

    The limit on similar log lines counts lines with the same text together, whatever their values.
    """

    text: str
    fields: LogFields


def log_lines(
    tables: Mapping[str, Iterable[Row]], responses: Iterable[Mapping[str, Any]], row_like: FindRow
) -> list[LogLine]:
    """Return the lines for a batch, given its rows by table and its responses.

    `row_like` returns, for a table and a row, the table's row with the same key, as it was before the batch.
    """
    answered = list(responses)
    answers = [row for row in answered if row.get("type") == HEARTBEAT]
    leaves = {
        (row["group_id"], row["member_id"])
        for row in answers
        if not row["error_code"] and row["member_epoch"] == _LEAVES
    }
    return [
        *_topics(row_changes(SHARE_PARTITIONS, tables, row_like)),
        *_members(row_changes(SHARE_GROUP_MEMBERS, tables, row_like), leaves, _removed(answered)),
        *(
            LogLine("group %(group)s: member %(member)s was fenced; it must join again", _member(row))
            for row in answers
            if row["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
        ),
        *(
            LogLine(
                "group %(group)s: a process of member %(member)s was fenced: %(error)s",
                {**_member(row), "error": row["error_message"]},
            )
            for row in answers
            if row["error_code"] == ErrorCode.FENCED_INSTANCE_ID
        ),
        *_groups(row_changes(SHARE_GROUPS, tables, row_like)),
    ]


def format_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges, for example "0-2, 5"."""
    runs = RangeMap((number, number, True) for number in numbers)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last, _ in runs)


def row_changes(
    spec: TableSpec, tables: Mapping[str, Iterable[Row]], row_like: FindRow
) -> Iterator[tuple[Row | None, Row]]:
    """Yield (row before, row after) for each change of a table's row by the batch; before is None for a new row.

    A batch may change the row of a key several times.
    """
    seen: dict[tuple[Any, ...], Row | None] = {}
    for row in tables.get(spec.name, ()):
        key = tuple(row[column] for column in spec.key)
        before = seen[key] if key in seen else row_like(spec.name, row)
        seen[key] = None if row.get(DELETED) else row
        yield before, row


def _member(row: Mapping[str, Any]) -> LogFields:
    return LogFields(group=row["group_id"], member=row["member_id"])


def _removed(responses: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return (group id, member id) for each member that an administrator has removed."""
    return {
        (row["group_id"], member_id)
        for row in responses
        for member_id, _, *error in (*row.get("removed", ()), *row.get("member_errors", ()))
        if not any(error)
    }


def _members(
    rows: Iterable[tuple[Row | None, Row]], leaves: set[tuple[str, str]], removed: set[tuple[str, str]]
) -> Iterator[LogLine]:
    for before, row in rows:
        who, fields = (row["group_id"], row["member_id"]), _member(row)
        if row.get(DELETED):
            how = "left" if who in leaves else "was removed" if who in removed else "timed out"
            if before is not None:
                yield LogLine(f"group %(group)s: member %(member)s {how}", fields)
        elif before is None:
            yield LogLine(
                "group %(group)s: member %(member)s joined (%(client_id)s at %(client)s), for %(topic)s",
                {
                    **fields,
                    "client_id": row["client_id"],
                    "client": row["client_host"],
                    "topic": ", ".join(row["subscribed_topic_names"]),
                },
            )
        elif row.get("group_instance_id") is not None and row["incarnation_id"] != before.get("incarnation_id"):
            what = "continues in another process" if row["incarnation_id"] else "left for a restart"
            yield LogLine(
                f"group %(group)s: static member %(member)s (group instance id %(instance)s) {what}",
                {**fields, "instance": row["group_instance_id"]},
            )


def _groups(rows: Iterable[tuple[Row | None, Row]]) -> Iterator[LogLine]:
    """Yield a line for each group whose state after the batch differs from its state before the batch."""
    whole: dict[str, tuple[Row | None, Row]] = {}
    for before, row in rows:
        begin, _ = whole.get(row["group_id"], (before, row))
        whole[row["group_id"]] = begin, row
    for group_id, (begin, end) in whole.items():
        state = end["group_state"]
        if state in _OF_GROUPS and begin is not None and begin["group_state"] != state:
            yield LogLine(_OF_GROUPS[state], LogFields(group=group_id))


def _topics(rows: Iterable[tuple[Row | None, Row]]) -> Iterator[LogLine]:
    """Yield one line for all partitions of a group's topic that change to the same status; none for removed rows."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for before, row in rows:
        if not row.get(DELETED) and (before is None or before["status"] != row["status"]):
            about = row["status"], row["group_id"], row["topic"], row["topic_id"]
            found.setdefault(about, []).append(row["partition"])
    for (status, group_id, topic, topic_id), numbers in found.items():
        fields = LogFields(group=group_id, topic=topic, topic_id=topic_id, partitions=format_ranges(numbers))
        yield LogLine(_OF_TOPICS[status], fields)
