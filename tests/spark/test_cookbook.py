"""docs/tables.md: its views have the documented columns, and its queries return rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable

from sharegroup.spark.views import LOG_END_OFFSETS, create_views, in_flight_sql, share_group_offsets_sql
from sharegroup.storage import read_in_flight
from sharegroup.storage.schemas import SHARE_GROUP_STATE, table_path
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.versioned_table import Upkeep
from sharegroup.testing.samples.sample_history import TOPIC, write_sample_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
DATABASE = "cookbook"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def documented(heading: str) -> list[str]:
    """Return the rows of the table below a heading, without the table's own head."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n#", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


@pytest.fixture(scope="module")
def tables_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tables of 35 minutes, in which each query finds a row."""
    path = str(tmp_path_factory.mktemp("cookbook") / "tables")
    write_sample_history(path, minutes=35)
    state = DeltaTable(table_path(path, SHARE_GROUP_STATE))
    state.load_as_version(state.version() // 2)
    StateBaseUpkeep(path).run(state, Upkeep(timedelta(hours=24), 1_000))
    return path


@pytest.fixture(scope="module")
def cookbook(spark: SparkSession, tables_path: str) -> Iterator[SparkSession]:
    """A session with these tables under the names used by the page."""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(DATABASE)
    create_views(spark, tables_path)
    ends = spark.createDataFrame(
        [(TOPIC, 0, 50_000), (TOPIC, 1, 50_000)], "topic STRING, partition INT, log_end_offset LONG"
    )
    ends.createOrReplaceTempView(LOG_END_OFFSETS)
    yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")
    for view in (LOG_END_OFFSETS, "in_flight", "share_group_offsets"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize("view", ["in_flight", "share_group_offsets"])
def test_every_column_of_a_view_is_documented(cookbook: SparkSession, view: str) -> None:
    schema = cookbook.table(view).schema
    columns = [(field.name, field.dataType.simpleString().upper()) for field in schema.fields]
    described = [tuple(re.findall(r"`([^`]+)`", line)[:2]) for line in documented(f"View `{view}`")]
    assert described == columns


@pytest.mark.parametrize(
    ("view", "whole"), [("in_flight", in_flight_sql), ("share_group_offsets", share_group_offsets_sql)]
)
def test_a_view_over_the_base_equals_one_over_all_records(
    cookbook: SparkSession, tables_path: str, view: str, whole: Callable[[], str]
) -> None:
    assert cookbook.table("share_group_state_base").count() == 2
    expected = cookbook.sql(whole()).localCheckpoint()
    assert_df_equality(
        cookbook.table(view), expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )
    state = DeltaTable(table_path(tables_path, SHARE_GROUP_STATE))
    newer = StateBaseUpkeep(tables_path, None, 1).run(state, Upkeep(timedelta(hours=24), 1_000))
    assert newer.version() > 0, "a view goes on with a newer base than it was made with"
    assert_df_equality(
        cookbook.table(view), expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def test_a_view_equals_its_sql_function(cookbook: SparkSession, tables_path: str) -> None:
    shown = cookbook.sql("SELECT *, unix_millis(lock_deadline) AS lock_deadline_ms FROM in_flight").collect()
    read = [range_._asdict() | {"state": range_.state.name} for range_ in read_in_flight(tables_path)]
    assert read
    assert sorted(read, key=str) == sorted(({name: row[name] for name in read[0]} for row in shown), key=str)


def test_the_cookbook_is_found() -> None:
    assert len(blocks("sql")) >= 9


@pytest.mark.thorough
@pytest.mark.parametrize("statement", blocks("sql"), ids=lambda statement: " ".join(statement.split())[:60])
def test_a_cookbook_query_returns_rows(cookbook: SparkSession, statement: str) -> None:
    if "share_group_job" in statement:
        assert cookbook.sql(statement).columns == ["query", "leader_epoch", "application_id", "time"]
    else:
        assert cookbook.sql(statement).count() > 0


def test_the_cookbooks_python_code_runs(cookbook: SparkSession, tables_path: str) -> None:
    for source in blocks("python"):
        if "create_views(spark" not in source:  # the fixture already runs it
            here = source.replace("/data/tables", tables_path)
            exec(compile(here, "docs/tables.md", "exec"), {"spark": cookbook})


@pytest.mark.thorough
def test_history_of_a_released_record_matches_the_page(cookbook: SparkSession) -> None:
    statement = next(statement for statement in blocks("sql") if "1055 BETWEEN" in statement)
    history = [(row["cause"], row["to_state"], row["delivery_count"]) for row in cookbook.sql(statement).collect()]
    assert history[0] == ("fetch", "ACQUIRED", 1)
    assert history[-1] == ("release", "ARCHIVED", 5)
    assert len(history) == 10
