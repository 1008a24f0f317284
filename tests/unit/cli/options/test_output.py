"""Tables in the format of Kafka's tools, and the same rows as JSON and YAML."""

from __future__ import annotations

import json

import pytest
import yaml

from sharegroup.cli.options.output import Column, Output, OutputFormat, table_text, time_text, warn
from sharegroup.cli.options.watching import repeat

COLUMNS = (
    Column("GROUP", "group"),
    Column("PARTITION", "partition", 10),
    Column("START-OFFSET", "start_offset", 13),
    Column("LAG", "lag"),
)
ROWS = [
    {"group": "a-group-of-a-long-name", "partition": 0, "start_offset": 1, "lag": None},
    {"group": "g", "partition": 10, "start_offset": 123, "lag": 4},
]


def test_a_table_is_aligned() -> None:
    assert table_text(COLUMNS, ROWS).splitlines() == [
        "GROUP                  PARTITION  START-OFFSET  LAG",
        "a-group-of-a-long-name 0          1             -",
        "g                      10         123           4",
    ]


@pytest.mark.parametrize("at_ms", [2**62, -(2**63)])
def test_a_time_outside_the_calendar_is_shown_as_a_number(at_ms: int) -> None:
    assert time_text(at_ms) == f"{at_ms} ms"


HOSTILE = "x\n\x1b[2J\tg\u202e\x9b\x07"
ESCAPED = r"x\n\x1b[2J\tg\u202e\x9b\x07"


def test_names_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Client ids, group ids and keys of records are anybody's."""
    assert table_text([Column("CLIENT-ID", "client")], [{"client": HOSTILE}]).splitlines() == ["CLIENT-ID", ESCAPED]
    Output().print_line(HOSTILE)
    warn(HOSTILE)
    of_lines = ESCAPED.replace(r"\n", "\n").replace(r"\t", "\t") + "\n"
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (of_lines, of_lines)


def test_tables_are_printed_in_each_format(capsys: pytest.CaptureFixture[str]) -> None:
    Output().tables(COLUMNS, [ROWS[:1], [], ROWS[1:]])
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "",
        "GROUP",
        "a-group-of-a-long-name",
        "",
        "GROUP",
        "g",
    ]
    Output(OutputFormat.JSON).tables(COLUMNS, [ROWS[:1], ROWS[1:]])
    assert json.loads(capsys.readouterr().out) == ROWS
    Output(OutputFormat.YAML).tables(COLUMNS, [ROWS])
    assert yaml.safe_load(capsys.readouterr().out) == ROWS
    Output(OutputFormat.JSON).tables(COLUMNS, [[]])
    assert json.loads(capsys.readouterr().out) == []


def test_watching_repeats_until_it_is_stopped() -> None:
    calls: list[float] = []

    def pause(seconds: float) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt
        assert seconds == 0.5

    assert repeat(lambda: calls.append(1), 0.5, pause) == 0
    assert len(calls) == 3
    assert repeat(lambda: calls.append(1), None, pause) == 0
    assert len(calls) == 4
