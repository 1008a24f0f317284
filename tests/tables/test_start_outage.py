"""Steps of the job's start that fail because of an outage are repeated; the test sets the clock."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from sharegroup.errors import StopRequested
from sharegroup.spark.job.start_outage import retry_during_outage
from sharegroup.spark.job.supervisor import MAX_DELAY_S
from sharegroup.storage.writing.versioned_table import TableStoreError

FULL = TableStoreError("OSError: No space left on device (os error 28)")


class Start:
    """A step that fails as `script` defines and then succeeds; the job must stop at `stop_s`."""

    def __init__(self, *script: Exception, stop_s: float = float("inf")) -> None:
        self.script, self.stop_s = deque(script), stop_s
        self.now_s = 0.0
        self.tries: list[float] = []

    def step(self) -> str:
        self.tries.append(self.now_s)
        if self.script:
            raise self.script.popleft()
        return "leads"

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.now_s >= self.stop_s

    def run(self) -> str:
        return retry_during_outage(self.step, self.wait, lambda: self.now_s)


def test_a_step_that_succeeds_runs_once_without_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    start = Start()
    assert start.run() == "leads"
    assert start.tries == [0]
    assert not caplog.messages


def test_a_full_disk_is_waited_out_with_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    start = Start(*[FULL] * 8)
    assert start.run() == "leads"
    assert start.tries == [0, 1, 3, 7, 15, 31, 31 + MAX_DELAY_S, 31 + 2 * MAX_DELAY_S, 31 + 3 * MAX_DELAY_S]
    begins, ends = caplog.messages
    assert "No space left on device" in begins
    assert ends == "the start of the job continues after 121.0 s"


def test_a_job_that_waits_for_its_start_can_be_stopped() -> None:
    start = Start(*[FULL] * 8, stop_s=7)
    with pytest.raises(StopRequested):
        start.run()
    assert start.tries == [0, 1, 3]


def test_an_error_that_is_no_outage_ends_the_start() -> None:
    start = Start(FULL, TableStoreError("OSError: 403 Forbidden"), FULL)
    with pytest.raises(TableStoreError, match="403"):
        start.run()
    assert start.tries == [0, 1]
