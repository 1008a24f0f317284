"""A page without tables and brokers, with given snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from starlette.testclient import TestClient

from sharegroup.config import Config, GatewayConfig
from sharegroup.kafka_clients.admin import LogOffsets
from sharegroup.security.acl import Acl
from sharegroup.security.authorization import Authorization
from sharegroup.storage import CachedTables, MemberDescription, ShareGroupDescription
from sharegroup.types import RecordState, StateBatch
from sharegroup.ui.access import Tokens
from sharegroup.ui.app import application
from sharegroup.ui.data.logs import Payload, Place
from sharegroup.ui.data.snapshots import GroupView, PartitionView, Snapshot
from sharegroup.ui.data.trend import LagHistory
from sharegroup.ui.pages import PageContext

NOW_MS = 1_795_000_000_000
TOPIC_ID = "nTqM0Q7dRkyb5xJw2hVu3A"


class SeenLogs:
    """`Logs` with the same record at every offset."""

    def __init__(self, payload: Payload | None = None) -> None:
        self.payload = payload
        self.requested: list[tuple[Place, int]] = []

    def offsets(self, places: Collection[Place]) -> Mapping[Place, LogOffsets]:
        return {place: LogOffsets(0, 20_000) for place in places}

    def timestamps_ms(self, starts: Mapping[Place, int]) -> Mapping[Place, int]:
        return dict.fromkeys(starts, NOW_MS - 61_000)

    def record(self, place: Place, offset: int) -> Payload | None:
        self.requested.append((place, offset))
        return self.payload

    def close(self) -> None:
        """Nothing is open."""


class SeenSnapshots:
    """Stands in for `Snapshots`."""

    def __init__(self, groups: Iterable[GroupView], problems: Sequence[str] = (), tables_path: str = "nowhere") -> None:
        found = {group.description.group_id: group for group in groups}
        self.newest = Snapshot(NOW_MS, found, tuple(problems))
        self.history = LagHistory()
        self._tables = CachedTables(tables_path)

    def tables_of(self, group_id: str) -> CachedTables:
        return self._tables

    def all_tables(self) -> list[CachedTables]:
        return [self._tables]


def partition(
    number: int = 0, batches: Sequence[StateBatch] = (), start: int | None = 0, end: int = 1_000, topic: str = "orders"
) -> PartitionView:
    log = LogOffsets(0, end)
    return PartitionView(topic, TOPIC_ID, number, start, log, end - (start or 0), NOW_MS - 61_000, tuple(batches))


def group(
    group_id: str, partitions: Sequence[PartitionView] = (), members: Sequence[str] = (), lag: int | None = None
) -> GroupView:
    described = tuple(
        MemberDescription(member, 1, None, "client", "/127.0.0.1", ("orders",), {"orders": (TOPIC_ID, (0,))})
        for member in members
    )
    state = "Stable" if members else "Empty"
    description = ShareGroupDescription(group_id, state, 3, 3, described, ())
    acquired = sum(row.records(RecordState.ACQUIRED) for row in partitions)
    lags = [row.lag for row in partitions if row.lag is not None]
    total = sum(lags) if lag is None else lag
    return GroupView(description, "", tuple(partitions), total, NOW_MS - 61_000, acquired, {})


def many_ranges(count: int, members: Sequence[str]) -> list[StateBatch]:
    """Ranges of one to three records, as after acknowledgements in any order."""
    found, at = [], 0
    for index in range(count):
        last = at + index % 3
        match index % 4:
            case 0:
                member = members[index // 97 % len(members)]
                found.append(StateBatch(at, last, RecordState.ACQUIRED, 1, member, NOW_MS + 20_000))
            case 1:
                found.append(StateBatch(at, last, RecordState.ACKNOWLEDGED, 1))
            case 2:
                found.append(StateBatch(at, last, RecordState.AVAILABLE, 1))
            case _:
                state = RecordState.ARCHIVED if index % 28 == 3 else RecordState.ACKNOWLEDGED
                found.append(StateBatch(at, last, state, 5))
        at = last + 1
    return found


def parts(
    groups: Iterable[GroupView],
    logs: SeenLogs | None = None,
    acl: Acl | None = None,
    allows_changes: bool = False,
    problems: Sequence[str] = (),
    tables_path: str = "nowhere",
) -> PageContext:
    snapshots = SeenSnapshots(groups, problems, tables_path)
    return PageContext(Config(), snapshots, logs or SeenLogs(), Authorization(acl), Tokens(), allows_changes)


def browser(of: PageContext, config: GatewayConfig | None = None, host: str = "127.0.0.1") -> TestClient:
    """A client of a page that listens on `host`."""
    app = application(of, config or GatewayConfig(), host)
    return TestClient(app, base_url="http://localhost", follow_redirects=False)
