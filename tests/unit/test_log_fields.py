"""Log records carry the values of their sentence as fields, whose names are the same in the whole package."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sharegroup
from sharegroup.kafka_clients.line_limit import LineLimit
from sharegroup.log_fields import FORMAT_VARIABLE, JsonLines, LogFields, log_formatter
from sharegroup.types import SharePartitionKey

ROOT = Path(sharegroup.__file__).parent
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: Sentences that are built elsewhere, with fields of the type LogFields, which mypy checks.
_BUILT = {"job/commit/query_run.py", "kafka_clients/outage_log.py"}
#: The audit log, which has a format of its own.
_AUDIT = "security/audit.py"


def _log_calls() -> Iterator[tuple[str, ast.Call]]:
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=level)) if level in _LEVELS:
                    if ast.unparse(owner).endswith("logger"):
                        yield str(path.relative_to(ROOT)), node


def _fields_problem(place: str, call: ast.Call) -> str | None:
    """Return what is wrong with the fields of a log call, or None."""
    sentence, *values = call.args
    if not isinstance(sentence, ast.Constant):
        return None if place in _BUILT else "the sentence is not a constant"
    specs = re.findall(r"%(?:\((\w+)\))?[-.\d]*[a-z]", str(sentence.value))
    if not specs and not values:
        return None
    if len(values) != 1:
        return "the values are not fields"
    if isinstance(values[0], ast.Name):  # built in a line before
        return None if "" not in specs else "a value has no name"
    passed = {keyword.arg for keyword in values[0].keywords} if isinstance(values[0], ast.Call) else set()
    unknown = passed - LogFields.__annotations__.keys()
    missing = set(specs) - passed
    return f"unknown {unknown}, missing {missing}" if unknown or missing else None


def test_each_value_of_a_log_call_is_a_field_of_the_vocabulary() -> None:
    calls = [(place, call) for place, call in _log_calls() if place != _AUDIT]
    assert len(calls) > 100
    problems = {f"{place}:{call.lineno}": _fields_problem(place, call) for place, call in calls}
    assert not {place: problem for place, problem in problems.items() if problem}


def test_no_field_is_unused() -> None:
    used = " ".join(path.read_text() for path in ROOT.rglob("*.py"))
    assert {name for name in LogFields.__annotations__ if f"%({name})" not in used} == set()


@pytest.mark.parametrize(
    "call",
    [
        'logger.info("group %s", group_id)',
        'logger.info("group %(group)s", LogFields(member=group_id))',
        'logger.info("group %(grp)s", LogFields(grp=group_id))',
        'logger.info("group %s of %(member)s", LogFields(member=member_id))',
        'logger.info(f"group {group_id}")',
    ],
)
def test_call_without_its_fields_is_found(call: str) -> None:
    (statement,) = ast.parse(call).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert _fields_problem("any.py", statement.value)


def _record(text: str, fields: LogFields, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, None) if error else None
    return logging.LogRecord("sharegroup.x", logging.WARNING, "x.py", 1, text, (fields,), exc_info)


@pytest.mark.parametrize("is_limited", [False, True])
def test_json_line_has_the_sentence_and_its_fields(is_limited: bool) -> None:
    fields = LogFields(broker=2, duration_s=4.5, error=OSError("gone"))
    record = _record("broker %(broker)d: %(error)s, after %(duration_s).1f s", fields)
    if is_limited:
        assert LineLimit().filter(record)
    line = json.loads(JsonLines().format(record))
    assert line.pop("time")
    assert line == {
        "level": "WARNING",
        "logger": "sharegroup.x",
        "message": "broker 2: gone, after 4.5 s",
        "broker": 2,
        "duration_s": 4.5,
        "error": "gone",
    }


def test_share_partition_is_three_fields() -> None:
    key = SharePartitionKey("billing", "orders", "id", 3)
    line = json.loads(JsonLines().format(_record("%(share_partition)s waits", LogFields(share_partition=key))))
    assert (line["group"], line["topic"], line["partition"]) == ("billing", "orders", 3)
    assert "share_partition" not in line


def test_stack_trace_is_in_the_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "failed", (), sys.exc_info())
    assert "ValueError: broken" in json.loads(JsonLines().format(record))["stack_trace"]


def test_environment_selects_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not isinstance(log_formatter("%(message)s"), JsonLines)
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    assert isinstance(log_formatter("%(message)s"), JsonLines)
