"""Computes the plan of `--reset-offsets`: {partition: new start offset}."""

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from kafka import TopicPartition
from kafka.errors import LeaderNotAvailableError, UnknownTopicOrPartitionError

from sharegroup.cli.options.connection import CommandError
from sharegroup.cli.options.output import warn
from sharegroup.cli.share_groups.arguments import Arguments
from sharegroup.kafka_clients.admin import LogOffsets, ShareGroupAdmin

ResetPlan = dict[TopicPartition, int]


def reset_plan(admin: ShareGroupAdmin, arguments: Arguments) -> ResetPlan:
    """Return {partition: new start offset}, sorted by topic and partition. Offsets are not changed yet.

    Print a warning for each offset that differs from the requested one. Raise CommandError for an invalid option or
    file, and KafkaError if a request fails or a partition is not available.
    """
    (group_id,) = arguments.group
    wanted: Mapping[TopicPartition, int] | None = None
    if arguments.from_file is not None:
        wanted = read_plan(Path(arguments.from_file), group_id)
        partitions = _existing(admin, {key.topic: None for key in wanted}, wanted)
    elif arguments.all_topics:
        partitions = sorted(admin.list_group_offsets(group_id))
        _existing(admin, {key.topic: None for key in partitions}, partitions)
    else:
        partitions = _existing(admin, parse_topics(arguments.topic))
    logs = admin.log_offsets(partitions)
    if wanted is not None:
        return clamp(wanted, logs)
    if arguments.to_offset is not None:
        return clamp(dict.fromkeys(partitions, arguments.to_offset), logs)
    if arguments.to_datetime is not None:
        return _at(admin, partitions, timestamp_ms(arguments.to_datetime), logs)
    if arguments.to_current:
        found = admin.list_group_offsets(group_id, partitions)
        starts = {key: found[key].start_offset for key in partitions if key in found}
        return {key: logs[key].end if (start := starts.get(key)) is None else start for key in partitions}
    return {key: logs[key].start if arguments.to_earliest else logs[key].end for key in partitions}


def _existing(
    admin: ShareGroupAdmin, topics: Mapping[str, list[int] | None], named: Iterable[TopicPartition] = ()
) -> list[TopicPartition]:
    """Check that partitions exist and have a leader, and return them sorted. Raise KafkaError if the check fails.

    If `named` is not empty, the partitions in `named` are checked, otherwise the partitions in `topics`. `topics` is
    {topic: partitions}, where None means all partitions of the topic. `topics` must contain the topics of `named`.
    """
    found = admin.leaders(topics)
    selected = set(named) or {
        TopicPartition(topic, partition)
        for topic, partitions in topics.items()
        for partition in (partitions or [key.partition for key in found if key.topic == topic])
    }
    if missing := sorted(selected - found.keys()):
        raise UnknownTopicOrPartitionError(f"The partitions {_quoted(missing)} do not exist")
    if leaderless := sorted(key for key in selected if found[key] < 0):
        raise LeaderNotAvailableError(f"The partitions {_quoted(leaderless)} have no leader")
    return sorted(selected)


def _quoted(partitions: Iterable[TopicPartition]) -> str:
    return '"' + ",".join(f"{key.topic}-{key.partition}" for key in partitions) + '"'


def parse_topics(arguments: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse arguments `t` or `t:0,1,2` to {topic: partitions}, where None means all partitions of the topic.

    Raise CommandError if an argument has another format.
    """
    topics: dict[str, list[int] | None] = {}
    for argument in arguments:
        topic, colon, text = argument.partition(":")
        if not topic or ":" in text or (colon and not text):
            raise CommandError(f"Invalid topic arg '{argument}', expected topic name and partitions")
        partitions = [_partition(part, argument) for part in text.split(",")] if colon else None
        earlier = topics.get(topic, [])
        topics[topic] = None if partitions is None or earlier is None else [*earlier, *partitions]
    return topics


def _partition(text: str, argument: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise CommandError(f"Invalid partition '{text}' specified in topic arg '{argument}''")
    return int(text)


def timestamp_ms(text: str) -> int:
    """Parse `YYYY-MM-DDThh:mm:ss.sss` to ms since 1970. A time without a UTC offset is in UTC.

    Raise CommandError if the text has another format.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"Invalid datetime '{text}', expected YYYY-MM-DDThh:mm:ss.sss") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _at(
    admin: ShareGroupAdmin,
    partitions: Iterable[TopicPartition],
    moment_ms: int,
    logs: Mapping[TopicPartition, LogOffsets],
) -> ResetPlan:
    plan = {}
    for key, offset in admin.offsets_at(partitions, moment_ms).items():
        if offset is None:
            warn(
                f"Warn: Partition {key.partition} from topic {key.topic} is empty. Falling back to latest known offset."
            )
        plan[key] = logs[key].end if offset is None else offset
    return plan


def clamp(wanted: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, LogOffsets]) -> ResetPlan:
    """Return the plan `wanted` with each offset limited to the range of its partition's log (KIP-1323).

    `logs` has the start and end offset of each log. Print a warning for each offset that is changed.
    """
    plan = {}
    for key, offset in sorted(wanted.items()):
        plan[key] = min(max(offset, logs[key].start), logs[key].end)
        if plan[key] != offset:
            position = "higher than latest" if offset > plan[key] else "lower than earliest"
            warn(
                f"Warn: New offset ({offset}) is {position} offset for topic partition {key.topic}-{key.partition}. "
                f"Value will be set to {plan[key]}"
            )
    return plan


def read_plan(path: Path, group_id: str) -> ResetPlan:
    """Read the plan from a CSV file with rows `topic,partition,offset` or `group,topic,partition,offset`.

    Rows of other groups are ignored. Raise CommandError if the file cannot be read, has an invalid row, or has no rows
    for this group.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}") from None
    plan = {}
    for number, row in enumerate(csv.reader(io.StringIO(text), skipinitialspace=True), 1):
        if not row:
            continue
        *group, topic, partition, offset = row if len(row) in (3, 4) else ["", "", "", ""]
        if not topic or not partition.isdecimal() or not offset.isdecimal():
            raise CommandError(f"{path}, line {number}: the row is not topic,partition,offset")
        if not group or group == [group_id]:
            plan[TopicPartition(topic, int(partition))] = int(offset)
    if not plan:
        raise CommandError(f"No reset plan for group {group_id} found.")
    return plan


def write_plan(plan: Mapping[TopicPartition, int]) -> str:
    """Return the plan as CSV, in the format that `read_plan` reads."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((key.topic, key.partition, offset) for key, offset in plan.items())
    return text.getvalue()
