"""A log that cannot be filled from outside."""

from __future__ import annotations

import logging

import pytest

from sharegroup.gateway.bounded_log import LINES, WINDOW_S, BoundedLog


def test_so_many_lines_of_each_kind_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = [1_000.0]
    log = BoundedLog(logging.getLogger("bounded"), now=lambda: clock[0])
    with caplog.at_level(logging.INFO, logger="bounded"):
        for number in range(LINES + 5):
            log.log("garbage", logging.INFO, "line %d", number)
        log.log("other", logging.WARNING, "another kind")
        assert caplog.messages == [*(f"line {number}" for number in range(LINES)), "another kind"]
        assert caplog.records[-1].levelno == logging.WARNING

        caplog.clear()
        clock[0] += WINDOW_S
        log.log("garbage", logging.INFO, "line %d", 99)
        log.log("other", logging.INFO, "again")
        clock[0] += WINDOW_S
        log.log("garbage", logging.INFO, "at last")
        assert caplog.messages == ["line 99 (5 such lines were left out before)", "again", "at last"]
