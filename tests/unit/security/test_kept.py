"""What is read again while the gateway runs: once it is at rest, and never for worse."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from sharegroup.errors import InvalidConfigError
from sharegroup.security.kept import KeptAnswer, KeptFiles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


def kept(path: Path) -> KeptFiles[int]:
    def read() -> int:
        try:
            return int(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidConfigError(str(path), ["is no number"]) from error

    return KeptFiles(read, [str(path), ""])


def settled(files: KeptFiles[int]) -> list[bool]:
    """Two looks: whether each of them has read anything."""
    return [files.look(), files.look()]


def test_what_has_not_changed_is_not_read(path: Path) -> None:
    files = kept(path)
    assert (settled(files), files.value) == ([False, False], 1)


def test_what_has_changed_is_read_once_it_is_at_rest(path: Path) -> None:
    files = kept(path)
    path.write_text("2")
    assert not files.look()
    path.write_text("23")  # still being written
    assert not files.look()
    assert files.value == 1
    assert (settled(files), files.value) == ([True, False], 23)


def test_a_file_that_takes_another_s_place_has_changed(path: Path, tmp_path: Path) -> None:
    """As `mv`, and Kubernetes with its links: size and time may be the same."""
    files = kept(path)
    other = tmp_path / "other"
    other.write_text("2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    link = tmp_path / "link"
    link.symlink_to(path)
    linked = kept(link)
    other.replace(path)
    assert (settled(files), files.value) == ([False, True], 2)
    assert (settled(linked), linked.value) == ([False, True], 2)


def test_what_cannot_be_read_changes_nothing_and_is_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = kept(path)
    path.write_text("x")
    assert settled(files) + settled(files) == [False] * 4
    assert files.value == 1
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "what was read before stays in force" in line
    assert "is no number" in line
    path.unlink()
    assert (settled(files), files.value) == ([False, False], 1)
    path.write_text("4")
    assert (settled(files), files.value) == ([False, True], 4)


def test_who_needs_it_at_once_does_not_wait_for_the_rest(path: Path) -> None:
    files = kept(path)
    path.write_text("2")
    assert files.look_again()
    assert (files.value, settled(files)) == (2, [False, False])


def test_at_the_start_it_has_to_be_right(path: Path) -> None:
    path.write_text("x")
    with pytest.raises(InvalidConfigError):
        kept(path)


class Server:
    """Answers with how often it was asked, or not at all."""

    def __init__(self) -> None:
        self.asked, self.now_s, self.is_away = 0, 1_000.0, False

    def answer(self) -> int:
        self.asked += 1
        if self.is_away:
            raise InvalidConfigError("https://keys", ["cannot be read"])
        return self.asked

    def look_at(self, answer: KeptAnswer[int], now_s: float, again: bool = False) -> tuple[int, int]:
        """(how often it was asked by then, the value)"""
        self.now_s = now_s
        _ = answer.look_again() if again else answer.look()
        return self.asked, answer.value


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def answer(server: Server) -> KeptAnswer[int]:
    return KeptAnswer(server.answer, 0, 3_600.0, 10.0, lambda: server.now_s)


def test_a_server_is_asked_at_first_and_then_at_intervals(server: Server, answer: KeptAnswer[int]) -> None:
    assert answer.value == 0
    assert [server.look_at(answer, now_s) for now_s in (1_000, 1_001, 4_599, 4_600)] == [(1, 1), (1, 1), (1, 1), (2, 2)]


def test_out_of_turn_it_is_asked_seldom(server: Server, answer: KeptAnswer[int]) -> None:
    assert server.look_at(answer, 1_000, again=True) == (1, 1)
    assert server.look_at(answer, 1_009.9, again=True) == (1, 1)
    assert server.look_at(answer, 1_010, again=True) == (2, 2)


def test_a_server_that_is_away_is_asked_sooner_and_what_it_said_stays(
    server: Server, answer: KeptAnswer[int], caplog: pytest.LogCaptureFixture
) -> None:
    server.look_at(answer, 1_000)
    server.is_away = True
    asked = [server.look_at(answer, now_s) for now_s in (4_600, 4_605, 4_610, 4_620)]
    assert asked == [(2, 1), (2, 1), (3, 1), (4, 1)]
    assert len(caplog.records) == 1
    server.is_away = False
    assert server.look_at(answer, 4_630) == (5, 5)
    assert server.look_at(answer, 4_640) == (5, 5)
