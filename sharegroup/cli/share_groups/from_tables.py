"""`share-groups --describe --in-flight` and `--history`. They read the Delta tables, and need no broker."""

from pathlib import Path

from kafka import TopicPartition

from sharegroup.cli.options.connection import CommandError
from sharegroup.cli.options.output import Column, Output, Row, time_text, warn
from sharegroup.cli.share_groups.arguments import Arguments, DescribeKind
from sharegroup.cli.share_groups.reset_plan import parse_topics
from sharegroup.config import NO_CELL, Config, JobConfig, load_config
from sharegroup.storage import InFlightRange, read_groups, read_in_flight, read_record_history

_IN_FLIGHT = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("FIRST-OFFSET", "first_offset", 13),
    Column("LAST-OFFSET", "last_offset", 13),
    Column("STATE", "state", 13),
    Column("DELIVERY-COUNT", "delivery_count", 15),
    Column("LOCK-DEADLINE", "lock_deadline", 24),
    Column("CONSUMER-ID", "consumer_id"),
)
_HISTORY = (
    Column("GROUP", "group"),
    Column("TIME", "time", 24),
    Column("CAUSE", "cause", 13),
    Column("FROM", "from_state", 13),
    Column("TO", "to_state", 13),
    Column("DELIVERY-COUNT", "delivery_count", 15),
    Column("FIRST-OFFSET", "first_offset", 13),
    Column("LAST-OFFSET", "last_offset", 13),
    Column("LOCK-DEADLINE", "lock_deadline", 24),
    Column("CONSUMER-ID", "consumer_id"),
)


def describe_from_tables(arguments: Arguments, output: Output) -> None:
    """Print the ranges of records in flight, or the history of one record. Each group has a table, sorted by group id.

    Raise CommandError for invalid options, InvalidConfigError for an invalid configuration file, and
    TableUnavailableError if the tables cannot be read.
    """
    config = load_config(Path(arguments.config or ""))
    group_ids = _all_groups(config) if arguments.all_groups else sorted(set(arguments.group))
    jobs = {group_id: config.job_for(group_id) for group_id in group_ids}
    if arguments.kind is DescribeKind.IN_FLIGHT:
        output.tables(_IN_FLIGHT, [_in_flight(group_id, job) for group_id, job in jobs.items()])
    else:
        key, offset = _record(arguments)
        output.tables(_HISTORY, [_history(group_id, key, offset, job) for group_id, job in jobs.items()])


def _all_groups(config: Config) -> list[str]:
    jobs = [config.for_cell(cell).job for cell in config.cells.names or (NO_CELL,)]
    return sorted({row.group_id for job in jobs for row in read_groups(job.tables_path, job.delta_options)})


def _in_flight(group_id: str, job: JobConfig) -> list[Row]:
    rows = [_range(found) for found in read_in_flight(job.tables_path, [group_id], job.delta_options)]
    if not rows:
        warn(f"\nShare group '{group_id}' has no records in flight.")
    return rows


def _range(found: InFlightRange) -> Row:
    return {
        "group": found.group_id,
        "topic": found.topic,
        "partition": found.partition,
        "first_offset": found.first_offset,
        "last_offset": found.last_offset,
        "state": found.state_name,
        "delivery_count": found.delivery_count,
        "lock_deadline": time_text(found.lock_deadline_ms),
        "consumer_id": found.member_id,
    }


def _record(arguments: Arguments) -> tuple[TopicPartition, int]:
    """Return (partition, offset) of the options `--topic t:0 --offset N`.

    Raise CommandError if the options do not name exactly one record.
    """
    topics = parse_topics(arguments.topic)
    partitions = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers or ()]
    if len(topics) != 1 or len(partitions) != 1 or arguments.offset is None:
        raise CommandError("Option [history] requires one record: --topic TOPIC:PARTITION --offset OFFSET")
    return partitions[0], arguments.offset


def _history(group_id: str, key: TopicPartition, offset: int, job: JobConfig) -> list[Row]:
    found = read_record_history(job.tables_path, group_id, key.topic, key.partition, offset, job.delta_options)
    if not found:
        warn(f"\nShare group '{group_id}' has no transitions of record {offset} of {key.topic}-{key.partition}.")
    return [
        {
            **row._asdict(),
            "group": group_id,
            "time": time_text(row.time),
            "lock_deadline": time_text(row.lock_deadline),
            "consumer_id": row.member_id,
        }
        for row in found
    ]
