"""What a micro-batch of the group_coordinator query changed, in lines for the job's log.

Who joined, left, timed out, was removed or fenced, which static members restart, which groups are empty or gone, which
topics came and went, and which share-partitions are ready. A line is made where the rows differ from those of the
tables, so each thing is said once: a batch that is run again finds its own rows there, and most batches have nothing to
say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.core.group_coordinator.records import GroupState, SharePartitionStatus
from sharegroup.errors import ErrorCode
from sharegroup.job.commit.table_rows import DELETED
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.share_group_requests import HEARTBEAT
from sharegroup.storage.schemas import SHARE_GROUP_MEMBERS, SHARE_GROUPS, SHARE_PARTITIONS, TableSpec
from sharegroup.storage.writing.versioned_table import Row

_LEAVES = -1
#: What a log says of a group whose row has come to this state.
_OF_GROUPS = {
    GroupState.EMPTY.value: "group %s is empty: its last member has gone",
    GroupState.DEAD.value: "group %s is deleted",
}
#: What a log says of share-partitions of one topic whose rows have come to this status.
_OF_TOPICS = {
    SharePartitionStatus.INITIALIZING.value: "group %s discovers topic %s (id %s), partitions %s",
    SharePartitionStatus.INITIALIZED.value: "group %s has topic %s (id %s) ready, partitions %s",
    SharePartitionStatus.DELETING.value: "group %s forgets topic %s (id %s), partitions %s",
}

RowLike = Callable[[str, Row], Row | None]


class Line(NamedTuple):
    """A line of the log as `logging` takes it: lines of one text count as one kind, whatever their values."""

    text: str
    values: tuple[Any, ...]


def news(tables: Mapping[str, Iterable[Row]], responses: Iterable[Mapping[str, Any]], row_like: RowLike) -> list[Line]:
    """What a batch with these rows and responses changes; `row_like` gives the table's row before it, by its key."""
    answered = list(responses)
    answers = [row for row in answered if row.get("type") == HEARTBEAT]
    leaves = {
        (row["group_id"], row["member_id"])
        for row in answers
        if not row["error_code"] and row["member_epoch"] == _LEAVES
    }
    return [
        *_topics(changes(SHARE_PARTITIONS, tables, row_like)),
        *_members(changes(SHARE_GROUP_MEMBERS, tables, row_like), leaves, _removed(answered)),
        *(
            Line("group %s fences member %s: it has to join again", (row["group_id"], row["member_id"]))
            for row in answers
            if row["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
        ),
        *(
            Line(
                "group %s fences a process of member %s: %s", (row["group_id"], row["member_id"], row["error_message"])
            )
            for row in answers
            if row["error_code"] == ErrorCode.FENCED_INSTANCE_ID
        ),
        *_groups(changes(SHARE_GROUPS, tables, row_like)),
    ]


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in a few characters: "0-2, 5"."""
    runs = RangeMap((number, number, True) for number in numbers)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last, _ in runs)


def changes(
    spec: TableSpec, tables: Mapping[str, Iterable[Row]], row_like: RowLike
) -> Iterator[tuple[Row | None, Row]]:
    """Each row of a table as it was (None: it was not there) and as it becomes; a batch may have several of one key."""
    seen: dict[tuple[Any, ...], Row | None] = {}
    for row in tables.get(spec.name, ()):
        key = tuple(row[column] for column in spec.key)
        before = seen[key] if key in seen else row_like(spec.name, row)
        seen[key] = None if row.get(DELETED) else row
        yield before, row


def _removed(responses: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Group and id of those whom an administrator has removed."""
    return {
        (row["group_id"], member_id)
        for row in responses
        for member_id, _, *error in (*row.get("removed", ()), *row.get("member_errors", ()))
        if not any(error)
    }


def _members(
    rows: Iterable[tuple[Row | None, Row]], leaves: set[tuple[str, str]], removed: set[tuple[str, str]]
) -> Iterator[Line]:
    for before, row in rows:
        who = row["group_id"], row["member_id"]
        if row.get(DELETED):
            how = "left" if who in leaves else "was removed" if who in removed else "timed out"
            if before is not None:
                yield Line(f"group %s: member %s {how}", who)
        elif before is None:
            client = row["client_id"], row["client_host"], ", ".join(row["subscribed_topic_names"])
            yield Line("group %s: member %s joined (%s at %s), for %s", (*who, *client))
        elif row.get("group_instance_id") is not None and row["incarnation_id"] != before.get("incarnation_id"):
            what = "goes on in another process" if row["incarnation_id"] else "left for a restart"
            yield Line(f"group %s: static member %s, %s, {what}", (*who, row["group_instance_id"]))


def _groups(rows: Iterable[tuple[Row | None, Row]]) -> Iterator[Line]:
    """What a group was before the batch against what it is after it: one that is empty in between is none."""
    whole: dict[str, tuple[Row | None, Row]] = {}
    for before, row in rows:
        begin, _ = whole.get(row["group_id"], (before, row))
        whole[row["group_id"]] = begin, row
    for group_id, (begin, end) in whole.items():
        state = end["group_state"]
        if state in _OF_GROUPS and begin is not None and begin["group_state"] != state:
            yield Line(_OF_GROUPS[state], (group_id,))


def _topics(rows: Iterable[tuple[Row | None, Row]]) -> Iterator[Line]:
    """A line for all partitions of a topic that come to one status; that a forgotten one is gone is no news."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for before, row in rows:
        if not row.get(DELETED) and (before is None or before["status"] != row["status"]):
            about = row["status"], row["group_id"], row["topic"], row["topic_id"]
            found.setdefault(about, []).append(row["partition"])
    for (status, *topic), partitions in found.items():
        yield Line(_OF_TOPICS[status], (*topic, ranges(partitions)))
