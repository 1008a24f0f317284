"""SQL over the tables without Spark, as the demo and a shell use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.tables.schemas import ALL_TABLES
from sharegroup.testkit.sample_history import GROUP_ID, write_sample_history
from sharegroup.testkit.table_sql import main, query


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("tables"))
    write_sample_history(path)
    return path


def test_a_statement_sees_every_table_at_its_newest_version(tables: str) -> None:
    for spec in ALL_TABLES:
        assert query(tables, f"SELECT count(*) AS rows FROM {spec.name}").num_rows == 1, spec.name
    (row,) = query(tables, "SELECT group_id, count(*) AS rows FROM delivery_log GROUP BY 1").to_pylist()
    assert row["group_id"] == GROUP_ID
    assert row["rows"] > 0


def test_the_command_prints_rows_or_what_there_is(tables: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tables, "SELECT 1000 AS many, 'x' AS text"]) == 0
    said = capsys.readouterr().out
    assert "many" in said
    assert "1,000" in said
    assert main([tables]) == 0
    said = capsys.readouterr().out
    assert all(spec.name in said for spec in ALL_TABLES)


def test_what_is_wrong_is_a_sentence(tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tables, "SELECT * FROM nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err
    assert main([str(tmp_path / "none"), "SELECT 1"]) == 1
    assert "none" in capsys.readouterr().err
