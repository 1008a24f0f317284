"""The log of a job that runs for days stays small."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from sharegroup.errors import StopRequested
from sharegroup.kafka_clients.line_limit import LineLimit
from sharegroup.spark import log_set_up
from sharegroup.spark.log_set_up import WINDOW_S, set_up_log

LOG4J2 = Path(log_set_up.__file__).with_name("log4j2.properties")
DAY_S = 86_400
#: The characters of a time, a level and a name.
PREFIX = 60
#: Spark's class that logs "Streaming query made progress" with the state of all sources, at level info.
PROGRESS = "org.apache.spark.sql.execution.streaming.runtime.ProgressReporter"


def log4j2() -> dict[str, str]:
    lines = [line for line in LOG4J2.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" = ", 1) for line in lines)


def test_sparks_log_has_warnings_only_and_never_the_progress_of_each_batch() -> None:
    settings = log4j2()
    assert settings["property.level"].endswith(":-warn}")
    assert settings["rootLogger.level"] == "${level}"
    levels = {
        settings[key.replace(".level", ".name")]: value
        for key, value in settings.items()
        if key.startswith("logger.") and key.endswith(".level")
    }
    assert levels[PROGRESS] == "warn"
    assert set(levels.values()) <= {"warn", "error"}


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.clients.NetworkClient", "org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin"],
)
def test_lines_about_brokers_that_are_away_are_limited(name: str) -> None:
    """At most five lines in 100 s: log4j's burst filter allows `maxBurst` lines in `maxBurst / rate` seconds."""
    settings = log4j2()
    (logger,) = (key.removesuffix(".name") for key, value in settings.items() if value == name)
    assert settings[f"{logger}.filter.burst.type"] == "BurstFilter"
    burst, rate = (float(settings[f"{logger}.filter.burst.{key}"]) for key in ("maxBurst", "rate"))
    assert (burst, burst / rate) == (5, 100)


def test_the_file_that_command_lines_name_is_the_shipped_one() -> None:
    named = Path(__file__).parents[2] / "conf" / "log4j2.properties"
    assert named.read_bytes() == LOG4J2.read_bytes()


def test_a_day_of_members_that_come_and_go_is_a_few_megabytes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = [0.0]
    kinds = [f"group %s: member %s of a client at 10.0.0.7 has done {kind}" for kind in range(5)]
    with caplog.filtering(LineLimit(WINDOW_S, now=lambda: clock[0])):
        for number in range(1_800):  # one hour; the other hours are alike
            clock[0] += 2
            for kind in kinds:
                logging.getLogger("job").info(kind, "a-group-with-a-long-name", f"{number:036}")
        written = sum(len(record.getMessage()) + PREFIX for record in caplog.records)
    assert {text.rpartition(" (")[0][-1] for text in caplog.messages if " (" in text} == set("01234")
    assert written * DAY_S / 3_600 < 10_000_000


@pytest.fixture
def own_root() -> logging.Handler:
    """Yield the handlers of a process that has configured its log."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        set_up_log()
        (handler,) = root.handlers
        return handler
    finally:
        root.handlers = before


def record(error: BaseException) -> logging.LogRecord:
    return logging.LogRecord("py4j", logging.ERROR, "x.py", 1, "an exception", (), (type(error), error, None))


def test_a_requested_stop_is_no_failure(own_root: logging.Handler) -> None:
    assert not own_root.filter(record(StopRequested("stops before batch 7")))
    assert own_root.filter(record(ValueError("why")))


def test_a_lost_connection_to_the_jvm_leaves_no_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    log_set_up.end_quietly_with_the_jvm()
    for error in (BrokenPipeError(), EOFError(), ConnectionResetError()):
        sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a defect"), None)
    assert "a defect" in capsys.readouterr().err
