"""The command `sharegroup top`: a live table of all share groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.connection import (
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    CommandConfig,
    Timeout,
    admin_client,
    reporting_errors,
)
from sharegroup.cli.options.output import Column, Output, OutputFormat, OutputOption, Row
from sharegroup.cli.options.watching import repeat

if TYPE_CHECKING:
    from kafka import TopicPartition

    from sharegroup.config import Config
    from sharegroup.kafka_clients.admin import LogOffsets, OldestRecord, ShareGroupAdmin, ShareGroupOffset

_COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state", 8),
    Column("#MEMBERS", "members", 9),
    Column("LAG", "lag", 10),
    Column("IN-FLIGHT", "in_flight", 10),
    Column("RATE/S", "rate", 10, lambda rate: f"{rate:.1f}"),
    Column("OLDEST-S", "oldest_s", 10, lambda seconds: f"{seconds:.0f}"),
)


def top(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.")] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this number of updates.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file of the job, to count records in flight from the tables.")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_MS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show lag, records in flight, rate and oldest record of all share groups, until Ctrl-C."""
    with reporting_errors("top command"), admin_client(bootstrap_server, command_config, timeout) as admin:
        snapshots = GroupSnapshots(admin, _load(config))
        shown = [column for column in _COLUMNS if config is not None or column.key != "in_flight"]
        code = repeat(lambda: Output(output).tables(shown, [snapshots.poll()], blank_line=False), interval, count=count)
    raise typer.Exit(code)


def _load(path: Path | None) -> Config | None:
    if path is None:
        return None
    from sharegroup.config import load_config

    return load_config(path)


@dataclass
class GroupSnapshots:
    """Takes snapshots of all groups: lag, records in flight, rate and oldest record of each group.

    A rate is the number of records that were finished per second since the previous snapshot. Records in flight are
    read from the tables. Without `config`, they are not known.
    """

    admin: ShareGroupAdmin
    config: Config | None = None
    _finished: dict[str, int] = field(default_factory=dict)
    _at: float | None = None
    _oldest: dict[tuple[TopicPartition, int], OldestRecord | None] = field(default_factory=dict)

    def poll(self) -> list[Row]:
        """Take a snapshot. Return a row for each group, sorted by descending lag.

        Raise KafkaError if a request fails, and TableUnavailableError if the tables cannot be read.
        """
        groups = self.admin.describe_groups([g.group_id for g in self.admin.list_groups()], missing_ok=True)
        offsets = self.admin.list_groups_offsets(list(groups))
        logs = self.admin.log_offsets(sorted({key for found in offsets.values() for key in found}))
        now, in_flight = time.monotonic(), self._in_flight(list(groups))
        finished = {group_id: finished_records(found, logs) for group_id, found in offsets.items()}
        rows: list[Row] = [
            {
                "group": group_id,
                "state": group.group_state,
                "members": len(group.members),
                "lag": total_lag(offsets[group_id]),
                "in_flight": in_flight.get(group_id, 0) if self.config is not None else None,
                "rate": self._rate(group_id, finished[group_id], now),
                "oldest_s": self._oldest_s(offsets[group_id]),
            }
            for group_id, group in groups.items()
        ]
        self._finished, self._at = finished, now
        shown = {(key, at.start_offset) for found in offsets.values() for key, at in found.items()}
        self._oldest = {place: record for place, record in self._oldest.items() if place in shown}
        return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["group"]))

    def _rate(self, group_id: str, finished: int, now: float) -> float | None:
        if self._at is None or group_id not in self._finished or now <= self._at:
            return None
        return max(0.0, (finished - self._finished[group_id]) / (now - self._at))

    def _oldest_s(self, offsets: Mapping[TopicPartition, ShareGroupOffset]) -> float | None:
        """Return the age of a group's oldest unfinished record in seconds, None if it is not known."""
        starts = {(key, at.start_offset): at for key, at in offsets.items() if at.start_offset is not None and at.lag}
        new = {key: at for (key, start), at in starts.items() if (key, start) not in self._oldest}
        found = self.admin.oldest_unfinished(new)
        self._oldest |= {(key, at.start_offset or 0): found.get(key) for key, at in new.items()}
        times = [record.timestamp_ms for place in starts if (record := self._oldest[place]) is not None]
        return max(0.0, time.time() - min(times) / 1000) if times else None

    def _in_flight(self, group_ids: list[str]) -> dict[str, int]:
        if self.config is None:
            return {}
        from sharegroup.storage import read_in_flight

        counts: dict[str, int] = {}
        jobs = {job.tables_path: job for job in map(self.config.job_for, group_ids)}
        for path, job in jobs.items():
            of_path = [group_id for group_id in group_ids if self.config.job_for(group_id).tables_path == path]
            for row in read_in_flight(path, of_path, job.delta_options):
                if not row.state.is_terminal:
                    counts[row.group_id] = counts.get(row.group_id, 0) + row.last_offset - row.first_offset + 1
        return counts


def total_lag(offsets: Mapping[TopicPartition, ShareGroupOffset]) -> int | None:
    """Return the sum of the known lags of a group's partitions, None if no lag is known."""
    lags = [found.lag for found in offsets.values() if found.lag is not None]
    return sum(lags) if lags else None


def finished_records(
    offsets: Mapping[TopicPartition, ShareGroupOffset], logs: Mapping[TopicPartition, LogOffsets]
) -> int:
    """Return the sum of (log end offset - lag) of all partitions. Its increase is the number of finished records.

    The sum itself is higher than the number of records that the group finished, because it also counts offsets that the
    group skipped. Partitions with an unknown lag or log end offset are left out.
    """
    return sum(logs[key].end - found.lag for key, found in offsets.items() if found.lag is not None and key in logs)
