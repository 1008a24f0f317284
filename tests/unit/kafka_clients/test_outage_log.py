"""One log line when work starts to fail, and one when it succeeds again."""

from __future__ import annotations

import logging

import pytest

from sharegroup.kafka_clients.outage_log import OutageLog

logger = logging.getLogger("work")


def test_outage_is_logged_at_its_start_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    outage = OutageLog(logger, "rows cannot be read", "rows are read again", now=lambda: now[0])
    outage.report_success()
    assert not caplog.messages
    for problem in ("no answer", "no answer", "another problem"):
        outage.report_failure(problem)
        now[0] += 2.5
    outage.report_success()
    outage.report_success()
    assert caplog.messages == [
        "rows cannot be read; retrying: no answer",
        "rows are read again after 7.5 s",
    ]


def test_each_outage_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outage = OutageLog(logger, "rows cannot be read", "rows are read again", now=lambda: 1.0)
    for problem in ("first", "second"):
        outage.report_failure(problem)
        outage.report_success()
    assert [line for line in caplog.messages if "cannot" in line] == [
        "rows cannot be read; retrying: first",
        "rows cannot be read; retrying: second",
    ]
