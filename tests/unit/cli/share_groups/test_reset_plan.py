"""Plans of resets: topics, times, and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import TopicPartition

from sharegroup.cli.options.connection import CommandError
from sharegroup.cli.share_groups.reset_plan import clamp, parse_topics, read_plan, timestamp_ms, write_plan
from sharegroup.kafka_clients.admin import LogOffsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_topics_are_parsed() -> None:
    assert parse_topics(["t", "u:0,2"]) == {"t": None, "u": [0, 2]}
    assert parse_topics(["t:0", "t:1"]) == {"t": [0, 1]}
    assert parse_topics(["t:0", "t"]) == {"t": None}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("t:", "Invalid topic arg 't:', expected topic name and partitions"),
        (":0", "Invalid topic arg ':0', expected topic name and partitions"),
        ("t:0:1", "Invalid topic arg 't:0:1', expected topic name and partitions"),
        ("t:a", "Invalid partition 'a' specified in topic arg 't:a''"),
        ("t:0,", "Invalid partition '' specified in topic arg 't:0,''"),
        ("t:-1", "Invalid partition '-1' specified in topic arg 't:-1''"),
    ],
)
def test_an_invalid_topic_is_rejected(argument: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_topics([argument])
    assert str(caught.value) == message


def test_times_are_parsed() -> None:
    assert timestamp_ms("1970-01-01T00:00:01.500") == 1500
    assert timestamp_ms("1970-01-01T01:00:01.500+01:00") == 1500
    assert timestamp_ms("1970-01-01T00:00:01.500Z") == 1500
    with pytest.raises(CommandError, match="Invalid datetime 'yesterday'"):
        timestamp_ms("yesterday")


def test_offsets_are_limited_to_their_logs(capsys: pytest.CaptureFixture[str]) -> None:
    logs = {T0: LogOffsets(5, 9), T1: LogOffsets(0, 0)}
    assert clamp({T0: 3, T1: 0}, logs) == {T0: 5, T1: 0}
    assert clamp({T0: 7, T1: 4}, logs) == {T0: 7, T1: 0}
    lower, higher = capsys.readouterr().err.splitlines()
    assert lower == "Warn: New offset (3) is lower than earliest offset for topic partition t-0. Value will be set to 5"
    assert higher == "Warn: New offset (4) is higher than latest offset for topic partition t-1. Value will be set to 0"


def test_a_written_plan_is_read(tmp_path: Path) -> None:
    path, plan = tmp_path / "plan.csv", {T0: 3, T1: 4}
    path.write_text(write_plan(plan))
    assert path.read_text() == "t,0,3\nt,1,4\n"
    assert read_plan(path, "g") == plan


def test_a_plan_of_several_groups_is_filtered(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("g,t,0,3\n\nh,t,0,4\n")
    assert read_plan(path, "h") == {T0: 4}
    with pytest.raises(CommandError, match=r"No reset plan for group i found\."):
        read_plan(path, "i")


@pytest.mark.parametrize("line", ["t,0", "t,0,x", "t,x,0", ",0,0", "t,0,-1", "g,t,0,1,2"])
def test_an_invalid_line_of_a_plan_is_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(f"t,0,0\n{line}\n")
    with pytest.raises(CommandError, match="line 2: the row is not topic,partition,offset"):
        read_plan(path, "g")


def test_a_missing_file_of_a_plan_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"Cannot read .*: No such file"):
        read_plan(tmp_path / "none.csv", "g")
