"""What the driver tells the sources by a file."""

from __future__ import annotations

from pathlib import Path

from sharegroup.watch.hand_over import BatchMemory, HandOver, HandOverFile


def test_a_reader_sees_what_was_written_last(tmp_path: Path) -> None:
    writer, reader = HandOverFile(str(tmp_path / "share_partition")), HandOverFile(str(tmp_path / "share_partition"))
    assert reader.read() == HandOver()
    first = HandOver({"g\torders\t0": 1_000}, frozenset({"g\torders\t0"}), {0: 5, 3: 7})
    writer.write(first)
    assert (reader.read(), reader.read()) == (first, first)
    writer.write(HandOver(positions={0: 6}))
    assert reader.read() == HandOver(positions={0: 6})
    assert [path.name for path in tmp_path.iterdir()] == ["share_partition"]


def test_a_lost_file_is_an_empty_one(tmp_path: Path) -> None:
    file = HandOverFile(str(tmp_path / "x"))
    file.write(HandOver({"k": 1}))
    assert file.read() == HandOver({"k": 1})
    (tmp_path / "x").unlink()
    assert file.read() == HandOver()


def test_the_memory_keeps_what_later_batches_do_not_speak_of() -> None:
    memory = BatchMemory()
    memory.update({"a": 1, "b": 2}, {"a": True, "b": False})
    memory.update({"b": None, "c": 3}, {"b": True, "c": False})
    assert memory.hand_over({0: 4}) == HandOver({"a": 1, "c": 3}, frozenset({"a", "b"}), {0: 4})
    memory.update({"a": 9}, {"a": False})
    assert memory.hand_over({}) == HandOver({"a": 9, "c": 3}, frozenset({"b"}))
