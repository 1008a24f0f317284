"""The limit of log lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from sharegroup.kafka_clients.line_limit import LINES, WINDOW_S, LineLimit


@pytest.fixture
def clock() -> list[float]:
    return [1_000.0]


@pytest.fixture
def lines(clock: list[float], caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.INFO)
    with caplog.filtering(LineLimit(now=lambda: clock[0])):
        yield caplog


def garbage(value: object) -> None:
    logging.getLogger("one").info("client %s is gone", value)


def other(value: object) -> None:
    logging.getLogger("one").warning("%s", value)


def test_lines_of_each_message_are_limited_per_window(clock: list[float], lines: pytest.LogCaptureFixture) -> None:
    for number in range(LINES + 5):
        garbage(number)
    other("another")
    assert lines.messages == [*(f"client {number} is gone" for number in range(LINES)), "another"]

    lines.clear()
    clock[0] += WINDOW_S
    garbage("a")
    other("again")
    clock[0] += WINDOW_S
    garbage("b")
    assert lines.messages == ["client a is gone (5 such lines were suppressed before)", "again", "client b is gone"]


def test_control_characters_are_escaped(lines: pytest.LogCaptureFixture) -> None:
    garbage("me\n2026-01-01 ERROR the gateway fails\x1b[2J")
    garbage("grün, 100 %")
    assert lines.messages == [
        r"client me\n2026-01-01 ERROR the gateway fails\x1b[2J is gone",
        "client grün, 100 % is gone",
    ]


def test_arguments_and_stack_traces_are_formatted(lines: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("one").exception("it failed: %d %%", 3)
    assert lines.messages == ["it failed: 3 %"]
    assert "ValueError: why" in lines.text


def test_messages_are_distinguished_by_their_format(lines: pytest.LogCaptureFixture) -> None:
    for text in ("member %s joined", "member %s left"):
        for number in range(LINES + 5):
            logging.getLogger("one").info(text, number)
    assert [text.rpartition(" ")[2] for text in lines.messages] == ["joined"] * LINES + ["left"] * LINES


def test_handler_may_have_another_limit() -> None:
    limit = LineLimit(90.0, lambda: 0.0, lines=2)
    record = logging.LogRecord("sharegroup", logging.INFO, __file__, 1, "something", (), None)
    assert [limit.filter(record) for _ in range(3)] == [True, True, False]
