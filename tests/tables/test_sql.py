"""SQL over the tables without Spark, as the demo and a shell use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from jobs import demo
from sharegroup.cli.app import app
from sharegroup.storage.reading.sql import run_query
from sharegroup.storage.schemas import ALL_TABLES
from sharegroup.testing.samples.sample_history import GROUP_ID, write_sample_history


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("tables"))
    write_sample_history(path, minutes=6)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sql", *arguments])


def test_a_statement_sees_every_table_at_its_newest_version(tables: str) -> None:
    for spec in ALL_TABLES:
        assert run_query(tables, f"SELECT count(*) AS rows FROM {spec.name}").num_rows == 1, spec.name
    (row,) = run_query(tables, "SELECT group_id, count(*) AS rows FROM delivery_log GROUP BY 1").to_pylist()
    assert row["group_id"] == GROUP_ID
    assert row["rows"] > 0


def test_the_queries_of_the_demo_are_valid(tables: str) -> None:
    outcomes, members, leaders = (run_query(tables, statement) for statement in demo.QUERIES.values())
    assert sum(outcomes["records"].to_pylist()) > 0
    assert sum(members["acquired"].to_pylist()) > 0
    assert leaders.column_names == ["query", "leader_epoch", "application_id", "time"]
    assert run_query(tables, demo.SPARK_ACQUIRED).num_rows == 0


def test_the_command_prints_rows(tables: str) -> None:
    done = run(tables, "SELECT 1000 AS many, 'x' AS text")
    assert done.exit_code == 0
    assert "many" in done.stdout
    assert "1,000" in done.stdout


def test_values_control_neither_the_terminal_nor_the_table(tables: str) -> None:
    """Client ids and group ids are anybody's. Rich would interpret text in brackets."""
    done = run(tables, "SELECT 'x' || chr(27) || '[2J' || chr(10) || '[red]y[/z]' AS id")
    assert done.exit_code == 0
    assert r"x\x1b[2J\n[red]y[/z]" in done.stdout


def test_without_a_statement_the_command_prints_tables_and_columns(tables: str) -> None:
    done = run(tables)
    assert done.exit_code == 0
    assert all(spec.name in done.stdout for spec in ALL_TABLES)


@pytest.mark.parametrize(("folder", "statement"), [("", "SELECT * FROM nowhere"), ("none", "SELECT 1")])
def test_an_error_is_a_line_and_exit_code_1(tables: str, folder: str, statement: str) -> None:
    done = run(str(Path(tables) / folder), statement)
    assert (done.exit_code, done.stdout) == (1, "")
    assert (folder or "nowhere") in done.stderr
