"""The program that `sharegroup move-group` starts as a process. `group_move` does the work."""

import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sharegroup.config import NO_CELL, Config, load_config
from sharegroup.config.keys.cells import job_of_cell
from sharegroup.errors import ShareGroupError
from sharegroup.job.cells.group_move import CellTables, check_movable, move_group
from sharegroup.job.command_parser import CommandParser
from sharegroup.job.commit.commit_steps import RowProducer
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer
from sharegroup.kafka_clients.row_topics.unread_rows import count_unread_rows
from sharegroup.log_fields import log_formatter
from sharegroup.storage.writing.versioned_table import TableStoreError


def main(arguments: Sequence[str] | None = None) -> int:
    """Move a group to the cell that the configuration assigns.

    Return exit code 0, or 1 if the group cannot be moved.
    """
    parser = CommandParser(description="Move a group to another cell while its members and both jobs are stopped.")
    parser.add_argument(
        "--config", required=True, type=Path, help="configuration that assigns the group to its new cell"
    )
    parser.add_argument("--group", required=True, help="the group's id")
    parser.add_argument(
        "--from", dest="source", default=NO_CELL, help="cell whose tables have the group (default: no cell)"
    )
    given = parser.parse_args(arguments)
    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        print(_moved(load_config(given.config), given.group, given.source))
    except (ShareGroupError, TableStoreError) as error:
        print(f"move-group: {error}", file=sys.stderr)
        return 1
    return 0


def _moved(config: Config, group_id: str, source_cell: str) -> str:
    """Move the group unless it was moved already, and return the sentence to print about it.

    Raises ShareGroupError if the group cannot be moved, and TableStoreError if the tables are unavailable.
    """
    target_cell = config.cells.cell_of(group_id)
    if source_cell == target_cell:
        return f"group {group_id} is already in cell {source_cell}, which the configuration assigns"
    with ExitStack() as resources:
        source, target = (_tables(config, cell, group_id, resources) for cell in (source_cell, target_cell))
        if not check_movable(source, target, group_id, lambda tables: _unread(config, source_cell, tables, group_id)):
            return f"group {group_id} is already in cell {target_cell}"
        move_group(source, target, group_id)
    checkpoints = " and ".join(job_of_cell(config.job, cell).checkpoint_path for cell in (source_cell, target_cell))
    return f"group {group_id} moved to cell {target_cell}. Remove {checkpoints}, then start the jobs"


class _WithoutGroup:
    """A `RowProducer` that does not send the requests for the group that moves. It sends all other rows.

    `CellTables` sends the rows of its cell's last batch again. Requests for the group are left out, because after the
    move the old cell's job no longer processes them. They were usually sent when the batch was committed. If not,
    records that such a request would have released stay locked until their locks expire.
    """

    def __init__(self, producer: RowProducer, group_id: str) -> None:
        self._producer, self._group_id = producer, group_id

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        others = [(key, value) for key, value in requests if json.loads(value).get("group_id") != self._group_id]
        self._producer.send(responses, others)


def _tables(config: Config, cell: str, group_id: str, resources: ExitStack) -> CellTables:
    job = job_of_cell(config.job, cell)
    settings = python_properties(job.bootstrap_servers, job.kafka)

    def producer(requests_topic: str) -> RowProducer:
        made = KafkaRowProducer(settings, job.responses_topic, requests_topic)
        resources.callback(made.close)
        return _WithoutGroup(made, group_id)

    return CellTables(job.tables_path, job.topics, producer, job.delta_options)


def _unread(config: Config, cell: str, tables: CellTables, group_id: str) -> int:
    job = job_of_cell(config.job, cell)
    settings = python_properties(job.bootstrap_servers, job.kafka)
    return count_unread_rows(settings, job.group_requests_topic, tables.groups.positions, group_id) + count_unread_rows(
        settings, job.partition_requests_topic, tables.states.positions, group_id
    )


if __name__ == "__main__":
    sys.exit(main())
