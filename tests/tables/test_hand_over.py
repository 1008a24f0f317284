"""What the driver sends to the sources in a file: changes that add up to the same handover on both sides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.job.clock.handover_file import HandoverFileReader, HandoverFileWriter
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.types import WaitsFor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "share_partition"


@pytest.fixture
def reader(path: Path) -> Iterator[HandoverFileReader]:
    reader = HandoverFileReader(str(path))
    yield reader
    reader.close()


KEYS, GATEWAYS = st.sampled_from("abc"), st.sampled_from(["g1", "g2"])
CHANGES = st.builds(
    HandoverChange,
    st.dictionaries(KEYS, st.none() | st.integers(0, 5)),
    st.dictionaries(KEYS, st.sampled_from(WaitsFor)),
    st.dictionaries(st.integers(0, 2), st.integers(0, 5)),
    st.none() | st.builds(ClockReading, st.integers(0, 5), st.integers(0, 5)),
    st.dictionaries(KEYS, st.lists(GATEWAYS, unique=True).map(sorted)),
    st.dictionaries(GATEWAYS, st.integers(0, 5)),
    st.integers(0, 5),
)


def plain(changes: list[HandoverChange]) -> Handover:
    """Return the sum of changes as dicts."""
    deadlines: dict[str, int | None] = {}
    waiting: dict[str, WaitsFor] = {}
    positions: dict[int, int] = {}
    clock: ClockReading | None = None
    for change in changes:
        deadlines |= change.deadlines
        waiting |= change.waiting
        positions |= change.positions
        clock = change.clock or clock
    with_one = {key: deadline for key, deadline in deadlines.items() if deadline is not None}
    whole = Handover(with_one, {key: waits for key, waits in waiting.items() if waits}, positions, clock)
    for change in changes:
        whole.leases.apply(change.reservers, change.leases, change.now_ms)
    return whole


@settings(deadline=None)
@given(st.lists(st.tuples(CHANGES, st.booleans(), st.booleans()), max_size=20), st.sampled_from([0, 60, 10**6]))
def test_every_reader_has_all_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[HandoverChange, bool, bool]], least_changes: int
) -> None:
    """The reader reads each time, sometimes, or late, and another driver may have written before."""
    path = str(tmp_path_factory.mktemp("hand_over") / "share_partition")
    writer, reader = HandoverFileWriter(path, least_changes), HandoverFileReader(path)
    assert reader.read() == Handover()
    written: list[HandoverChange] = []
    for change, is_read, is_new_driver in steps:
        if is_new_driver:
            writer, written = HandoverFileWriter(path, least_changes), []
        writer.write(change)
        written.append(change)
        if is_read:
            assert reader.read() == plain(written)
    late = HandoverFileReader(path)
    assert late.read() == reader.read() == plain(written)
    reader.close()
    late.close()


def test_a_line_that_is_half_written_is_read_when_it_is_whole(path: Path, reader: HandoverFileReader) -> None:
    HandoverFileWriter(str(path)).write(HandoverChange({"k": 1}))
    assert reader.read() == Handover({"k": 1})
    with path.open("ab") as file:
        file.write(b'[{"k":')
    assert reader.read() == Handover({"k": 1})
    with path.open("ab") as file:
        file.write(b"7},{},{},null]\n")
    assert reader.read() == Handover({"k": 7})


def test_a_driver_rewrites_a_file_that_ends_in_an_incomplete_line(path: Path, reader: HandoverFileReader) -> None:
    HandoverFileWriter(str(path)).write(HandoverChange({"k": 1}))
    with path.open("ab") as file:
        file.write(b'[{"k":')
    assert reader.read() == Handover({"k": 1})
    HandoverFileWriter(str(path)).write(HandoverChange(positions={0: 4}))
    assert reader.read() == Handover(positions={0: 4})
    assert list(path.parent.iterdir()) == [path]


def test_a_lost_file_is_an_empty_one(path: Path, reader: HandoverFileReader) -> None:
    HandoverFileWriter(str(path)).write(HandoverChange({"k": 1}))
    assert reader.read() == Handover({"k": 1})
    path.unlink()
    assert reader.read() == Handover()


def test_a_batch_costs_what_it_changes_and_the_file_stays_small(path: Path) -> None:
    writer = HandoverFileWriter(str(path), least_changes=1_000)
    writer.write(HandoverChange({f"key-{number}": number for number in range(1_000)}))
    whole = path.stat().st_size
    sizes = []
    for number in range(5_000):
        writer.write(HandoverChange({"key-7": number, "key-8": 8}, {"key-7": False}))
        sizes.append(path.stat().st_size)
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(steps) < 40
    assert len([step for step in steps if step < 0]) < 10
    assert max(sizes) <= 3 * whole + 1_000


def test_unchanged_values_are_not_written(path: Path) -> None:
    writer = HandoverFileWriter(str(path))
    change = HandoverChange({"k": 1, "l": None}, {"k": True, "l": False}, {0: 4})
    writer.write(change)
    before = path.read_bytes()
    writer.write(change)
    assert path.read_bytes() == before
