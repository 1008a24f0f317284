"""The command `sharegroup browse`: show records of a partition, and their states in a group, without acquiring them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sharegroup.cli.options.connection import (
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    CommandConfig,
    CommandError,
    Timeout,
    admin_client,
    client_settings,
    reporting_errors,
)
from sharegroup.cli.options.output import Column, Output, OutputFormat, OutputOption, Row, time_text

if TYPE_CHECKING:
    from kafka import TopicPartition

    from sharegroup.storage import InFlightRange

FINISHED, UNFINISHED = "FINISHED", "UNFINISHED"
AVAILABLE = "AVAILABLE"

_COLUMNS = (
    Column("OFFSET", "offset", 10),
    Column("TIMESTAMP", "timestamp", 24),
    Column("STATE", "state", 12),
    Column("DELIVERY-COUNT", "delivery_count", 15),
    Column("LOCK-DEADLINE", "lock_deadline", 24),
    Column("CONSUMER-ID", "consumer_id", 12),
    Column("KEY", "key", 10),
    Column("VALUE", "value", 10),
)
#: Keys of the columns whose values are read from the tables.
_TABLE_COLUMNS = {"delivery_count", "lock_deadline", "consumer_id"}


class RecordStanding(NamedTuple):
    """The standing of one record in a group: its state, its delivery count, and the member that has locked it.

    A field is None if it is not known or does not apply. Below the group's start offset, `state` is FINISHED. At or
    above it, `state` is the record state in the Delta tables or, without `--config`, UNFINISHED.
    """

    state: str | None
    delivery_count: int | None = None
    lock_deadline: str | None = None
    consumer_id: str | None = None


def browse(
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", help="Partition to read.")],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    group: Annotated[str | None, typer.Option(help="Show the states of the records in this group.")] = None,
    from_offset: Annotated[
        int | None, typer.Option(min=0, help="First offset. Default: the start offset of the group, or of the log.")
    ] = None,
    max_messages: Annotated[int, typer.Option(min=1, help="Maximum number of records.")] = 20,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file of the job, to read the state of each record from the tables."),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_MS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show records of a partition without acquiring them."""
    with reporting_errors("browse command"):
        if config is not None and group is None:
            raise CommandError("Option [config] also needs the option [group]")
        key = _partition(partition)
        start, standing = _standing(bootstrap_server, command_config, timeout, key, group, config)
        settings = client_settings(bootstrap_server, command_config)
        rows = _rows(settings, key, start if from_offset is None else from_offset, max_messages, standing, timeout)
        shown = [c for c in _COLUMNS if (group or c.key != "state") and (config or c.key not in _TABLE_COLUMNS)]
        Output(output).tables(shown, [list(rows)], blank_line=False)


def _partition(text: str) -> TopicPartition:
    from kafka import TopicPartition

    from sharegroup.cli.share_groups.reset_plan import parse_topics

    ((topic, partitions),) = parse_topics([text]).items()
    if partitions is None or len(partitions) != 1:
        raise CommandError(f"'{text}' is not one partition; use TOPIC:PARTITION")
    return TopicPartition(topic, partitions[0])


def _standing(
    bootstrap_server: str | None,
    command_config: Path | None,
    timeout_ms: int,
    key: TopicPartition,
    group: str | None,
    config: Path | None,
) -> tuple[int | None, Callable[[int], RecordStanding]]:
    """Return the group's start offset, and a function that returns the state of the record at an offset.

    If `group` is None or has no start offset yet, the start offset is None and all states are unknown. Raise
    CommandError if the partition does not exist, KafkaError if a request fails, InvalidConfigError if `config` is
    invalid, and TableUnavailableError if the tables cannot be read.
    """
    with admin_client(bootstrap_server, command_config, timeout_ms) as admin:
        if key not in admin.leaders([key.topic]):
            raise CommandError(f'The partitions "{key.topic}-{key.partition}" do not exist')
        if group is None:
            return None, lambda offset: RecordStanding(None)
        found = admin.list_group_offsets(group, [key]).get(key)
    start = found.start_offset if found is not None else None
    ranges = _ranges(config, group, key) if config is not None else None
    return start, lambda offset: get_standing(offset, start, ranges)


def _ranges(config: Path, group: str, key: TopicPartition) -> list[InFlightRange]:
    from sharegroup.config import load_config
    from sharegroup.storage import read_in_flight

    job = load_config(config).job_for(group)
    found = read_in_flight(job.tables_path, [group], job.delta_options)
    return [row for row in found if (row.topic, row.partition) == key]


def get_standing(offset: int, start: int | None, ranges: Iterable[InFlightRange] | None) -> RecordStanding:
    """Return the state of the record at `offset`. It is unknown if `start`, the group's start offset, is None.

    `ranges` are the group's ranges of records in flight in this partition, or None if the tables were not read. A
    record at or above `start` that is in none of the ranges is AVAILABLE.
    """
    if start is None:
        return RecordStanding(None)
    if offset < start:
        return RecordStanding(FINISHED)
    if ranges is None:
        return RecordStanding(UNFINISHED)
    for found in ranges:
        if found.first_offset <= offset <= found.last_offset:
            deadline = time_text(found.lock_deadline_ms)
            return RecordStanding(found.state_name, found.delivery_count, deadline, found.member_id)
    return RecordStanding(AVAILABLE, 0)


def _rows(
    settings: dict[str, Any],
    key: TopicPartition,
    start: int | None,
    limit: int,
    standing: Callable[[int], RecordStanding],
    timeout_ms: int,
) -> Iterator[Row]:
    from sharegroup.kafka_clients.log_records import read_records

    for record in read_records(settings, key, start, limit, timeout_ms):
        yield {
            "offset": record.offset,
            "timestamp": time_text(record.timestamp),
            **standing(record.offset)._asdict(),
            "key": _text(record.key),
            "value": _text(record.value),
        }


def _text(value: bytes | None) -> str | None:
    """Decode a key or value as UTF-8, with invalid bytes and line ends escaped. Return None for a null value."""
    if value is None:
        return None
    return value.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")
