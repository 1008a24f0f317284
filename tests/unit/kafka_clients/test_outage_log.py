"""One log line when work starts to fail, and one when it succeeds again."""

from __future__ import annotations

import logging

import pytest

from sharegroup.kafka_clients import outage_log
from sharegroup.kafka_clients.outage_log import OutageLog, OutageLogs
from sharegroup.log_fields import LogFields

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


def test_outages_of_several_things_are_independent(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLogs(logger, "broker %(broker)d is silent", "broker %(broker)d responds again", now=lambda: 1.0)
    for broker in (1, 2, 1):
        outages.report_failure(broker, "no answer", LogFields(broker=broker))
    for broker in (2, 2, 3):
        outages.report_success(broker)
    outages.discard(1)
    outages.report_success(1)
    assert caplog.messages == [
        "broker 1 is silent; retrying: no answer",
        "broker 2 is silent; retrying: no answer",
        "broker 2 responds again after 0.0 s",
    ]


def test_only_failing_things_are_kept_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_log, "MAX_KEYS", 2)
    outages = OutageLogs(logger, "it fails", "it works again")
    for key in range(4):
        outages.report_failure(key, "no answer")
    assert list(outages._failing) == [2, 3]
    outages.report_success(3)
    assert list(outages._failing) == [2]
