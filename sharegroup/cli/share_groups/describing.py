"""`share-groups --describe`: offsets and lags, members or states of groups, read with Kafka's protocol."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from kafka import TopicPartition

from sharegroup.cli.options.output import Column, Output, Row, warn
from sharegroup.cli.share_groups.arguments import DEAD, EMPTY, Arguments, DescribeKind, parse_lag_filter
from sharegroup.kafka_clients.admin import MemberDescription, ShareGroupAdmin, ShareGroupDescription, ShareGroupOffset


def _assignment(topics: dict[str, list[int]]) -> str:
    return ";".join(f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in topics.items())


_OFFSETS = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("LEADER-EPOCH", "leader_epoch", 13),
    Column("START-OFFSET", "start_offset", 13),
    Column("LAG", "lag"),
)
_MEMBERS = (
    Column("GROUP", "group"),
    Column("CONSUMER-ID", "consumer_id"),
    Column("HOST", "host"),
    Column("CLIENT-ID", "client_id"),
    Column("#PARTITIONS", "partitions", 12),
    Column("MEMBER-EPOCH", "member_epoch", 13),
    Column("ASSIGNMENT", "assignment", show=_assignment),
)
_STATE = (
    Column("GROUP", "group"),
    Column("COORDINATOR (ID)", "coordinator", 25, lambda node: f"{node['host']}:{node['port']}  ({node['id']})"),
    Column("STATE", "state"),
    Column("GROUP-EPOCH", "group_epoch", 12),
    Column("ASSIGNMENT-EPOCH", "assignment_epoch", 17),
    Column("#MEMBERS", "members"),
)
#: Columns that `--verbose` adds.
_VERBOSE = {"leader_epoch", "member_epoch", "group_epoch", "assignment_epoch"}


def describe(admin: ShareGroupAdmin, arguments: Arguments, output: Output) -> None:
    """Print a table for each group, sorted by group id.

    If a group named by `--group` does not exist, raise KafkaError and print nothing.
    """
    group_ids = [group.group_id for group in admin.list_groups()] if arguments.all_groups else arguments.group
    groups = admin.describe_groups(sorted(group_ids), missing_ok=arguments.all_groups)
    columns: Sequence[Column]
    if arguments.kind is DescribeKind.OFFSETS:
        columns, tables = _OFFSETS, _offset_rows(admin, groups, arguments.lag)
    elif arguments.kind is DescribeKind.MEMBERS:
        columns, tables = _MEMBERS, _member_rows(groups)
    else:
        columns, tables = _STATE, _state_rows(groups)
    output.tables([column for column in columns if arguments.verbose or column.key not in _VERBOSE], tables)


def _offset_rows(
    admin: ShareGroupAdmin, groups: Mapping[str, ShareGroupDescription], lag: str | None
) -> list[list[Row]]:
    found = admin.list_groups_offsets(list(groups))
    wanted = parse_lag_filter(lag) if lag is not None else None
    tables = []
    for group_id, group in groups.items():
        if not _warn_if_dead(group) and not found[group_id]:
            warn(f"\nShare group '{group_id}' has no offset information.")
        tables.append(
            [_offset(group_id, *item) for item in found[group_id].items() if wanted is None or wanted(item[1].lag)]
        )
    return tables


def _offset(group_id: str, partition: TopicPartition, found: ShareGroupOffset) -> Row:
    return {"group": group_id, "topic": partition.topic, "partition": partition.partition, **found._asdict()}


def _member_rows(groups: Mapping[str, ShareGroupDescription]) -> list[list[Row]]:
    for group in groups.values():
        _warn_if_empty(group)
    return [[_member(group.group_id, member) for member in group.members] for group in groups.values()]


def _member(group_id: str, member: MemberDescription) -> Row:
    by_topic = {
        topic: [key.partition for key in keys] for topic, keys in groupby(member.assignment, lambda key: key.topic)
    }
    return {
        "group": group_id,
        "consumer_id": member.member_id,
        "host": member.client_host,
        "client_id": member.client_id,
        "partitions": len(member.assignment),
        "member_epoch": member.member_epoch,
        "assignment": by_topic or None,
    }


def _state_rows(groups: Mapping[str, ShareGroupDescription]) -> list[list[Row]]:
    for group in groups.values():
        _warn_if_empty(group)
    return [[_state(group)] for group in groups.values() if group.group_state != DEAD]


def _state(group: ShareGroupDescription) -> Row:
    node_id, host, port = group.coordinator
    return {
        "group": group.group_id,
        "coordinator": {"id": node_id, "host": host, "port": port},
        "state": group.group_state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }


def _warn_if_empty(group: ShareGroupDescription) -> None:
    if not _warn_if_dead(group) and group.group_state == EMPTY:
        warn(f"\nShare group '{group.group_id}' has no active members.")


def _warn_if_dead(group: ShareGroupDescription) -> bool:
    if group.group_state == DEAD:
        warn(f"\nError: Share group '{group.group_id}' does not exist.")
    return group.group_state == DEAD
