"""Reloading: a change is read when it is stable, and an invalid change has no effect."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from sharegroup.errors import InvalidConfigError
from sharegroup.security.reloading import ReloadingFiles, ReloadingResponse


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


def kept(path: Path) -> ReloadingFiles[int]:
    def read() -> int:
        try:
            return int(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidConfigError(str(path), ["is not a number"]) from error

    return ReloadingFiles(read, [str(path), ""])


def look_twice(files: ReloadingFiles[int]) -> list[bool]:
    """Check twice, and return whether each check has read the file."""
    return [files.check(), files.check()]


def test_unchanged_file_is_not_read(path: Path) -> None:
    files = kept(path)
    assert (look_twice(files), files.value) == ([False, False], 1)


def test_changed_file_is_read_when_it_is_stable(path: Path) -> None:
    files = kept(path)
    path.write_text("2")
    assert not files.check()
    path.write_text("23")  # still being written
    assert not files.check()
    assert files.value == 1
    assert (look_twice(files), files.value) == ([True, False], 23)


def test_replaced_file_has_changed(path: Path, tmp_path: Path) -> None:
    """`mv` and Kubernetes replace the file; size and time may be the same."""
    files = kept(path)
    other = tmp_path / "other"
    other.write_text("2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    link = tmp_path / "link"
    link.symlink_to(path)
    linked = kept(link)
    other.replace(path)
    assert (look_twice(files), files.value) == ([False, True], 2)
    assert (look_twice(linked), linked.value) == ([False, True], 2)


def test_invalid_file_has_no_effect_and_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = kept(path)
    path.write_text("x")
    assert look_twice(files) + look_twice(files) == [False] * 4
    assert files.value == 1
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "the previous contents stay in use" in line
    assert "is not a number" in line
    path.unlink()
    assert (look_twice(files), files.value) == ([False, False], 1)
    path.write_text("4")
    assert (look_twice(files), files.value) == ([False, True], 4)


def test_immediate_reload_does_not_wait_for_a_stable_file(path: Path) -> None:
    files = kept(path)
    path.write_text("2")
    assert files.reload_now()
    assert (files.value, look_twice(files)) == (2, [False, False])


def test_invalid_file_is_rejected_at_startup(path: Path) -> None:
    path.write_text("x")
    with pytest.raises(InvalidConfigError):
        kept(path)


class Server:
    """A server that responds with the number of its requests, or not at all."""

    def __init__(self) -> None:
        self.asked, self.now_s, self.is_away = 0, 1_000.0, False

    def answer(self) -> int:
        self.asked += 1
        if self.is_away:
            raise InvalidConfigError("https://keys", ["cannot be read"])
        return self.asked

    def look_at(self, answer: ReloadingResponse[int], now_s: float, again: bool = False) -> tuple[int, int]:
        """Check at a time, and return (number of requests, value)."""
        self.now_s = now_s
        _ = answer.reload_now() if again else answer.check()
        return self.asked, answer.value


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def answer(server: Server) -> ReloadingResponse[int]:
    return ReloadingResponse(server.answer, 0, 3_600.0, 10.0, lambda: server.now_s)


def test_server_is_queried_first_and_then_at_intervals(server: Server, answer: ReloadingResponse[int]) -> None:
    assert answer.value == 0
    assert [server.look_at(answer, now_s) for now_s in (1_000, 1_001, 4_599, 4_600)] == [(1, 1), (1, 1), (1, 1), (2, 2)]


def test_immediate_queries_are_limited(server: Server, answer: ReloadingResponse[int]) -> None:
    assert server.look_at(answer, 1_000, again=True) == (1, 1)
    assert server.look_at(answer, 1_009.9, again=True) == (1, 1)
    assert server.look_at(answer, 1_010, again=True) == (2, 2)


def test_unavailable_server_is_queried_sooner_and_the_value_stays(
    server: Server, answer: ReloadingResponse[int], caplog: pytest.LogCaptureFixture
) -> None:
    server.look_at(answer, 1_000)
    server.is_away = True
    asked = [server.look_at(answer, now_s) for now_s in (4_600, 4_605, 4_610, 4_620)]
    assert asked == [(2, 1), (2, 1), (3, 1), (4, 1)]
    assert len(caplog.records) == 1
    server.is_away = False
    assert server.look_at(answer, 4_630) == (5, 5)
    assert server.look_at(answer, 4_640) == (5, 5)
