"""Registers the job's tables by name, and creates views on them, in any Spark session with Delta.

    create_views(spark, "/data/tables")
    spark.sql("SELECT * FROM in_flight WHERE state = 'ACQUIRED' AND lock_deadline < now()")

    view                | meaning of a row
    in_flight           | a record range that is in flight now: state, delivery count, member, lock deadline
    share_group_offsets | a share-partition: start and end offset, finished records, epochs
    log_end_offsets     | a topic-partition's end in Kafka (`create_log_end_offsets`), to compute the lag

The views are plain SQL (the files in `sql/`). `in_flight_sql` returns the text for another source or time.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from kafka.errors import KafkaTimeoutError
from pyspark.sql import SparkSession

from sharegroup.errors import ShareGroupError
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.storage.schemas import ALL_TABLES, SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE, table_path

IN_FLIGHT = "in_flight"
SHARE_GROUP_OFFSETS = "share_group_offsets"
LOG_END_OFFSETS = "log_end_offsets"
_LOG_END_SCHEMA = "topic STRING, partition INT, log_end_offset LONG"


class NameTakenError(ShareGroupError):
    """The database has a managed table with the name of one of the job's tables.

    The managed table is not replaced, because dropping it would delete its data.
    """


def create_views(spark: SparkSession, tables_path: str, database: str | None = None) -> None:
    """Register the job's tables in `database` (default: the current one) and create the temporary views on them.

    The tables are external: nothing is copied, time travel works by name, and dropping a table keeps its files. A table
    that is registered already is registered again, because its location may have changed. Raises NameTakenError if a
    managed table has one of the names.

    A query of a view returns the current state. It reads the newest `share_group_state_base`. It also reads all records
    of `share_group_state` that are newer than the base was when this function was called. Their number grows, so call
    the function again from time to time in a session that lasts for days.
    """
    if "://" not in tables_path:  # Spark resolves a relative location against its warehouse
        tables_path = str(Path(tables_path).resolve())
    prefix = f"`{database}`." if database else ""
    for spec in ALL_TABLES:
        _register(spark, f"{prefix}`{spec.name}`", table_path(tables_path, spec))
    state, base = (f"{prefix}`{spec.name}`" for spec in (SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE))
    source = f"({_current_records(spark, base, state)})"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {IN_FLIGHT} AS {in_flight_sql(source)}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {SHARE_GROUP_OFFSETS} AS {share_group_offsets_sql(source)}")


def in_flight_sql(source: str = SHARE_GROUP_STATE.name) -> str:
    """Return the statement of the view `in_flight` over any `source` that can follow FROM.

    `source` may name a version: "share_group_state VERSION AS OF 12", "delta.`/data/tables/share_group_state`".
    """
    return _statement(IN_FLIGHT, source)


def share_group_offsets_sql(source: str = SHARE_GROUP_STATE.name) -> str:
    """Return the statement of the view `share_group_offsets` over any `source` (see `in_flight_sql`)."""
    return _statement(SHARE_GROUP_OFFSETS, source)


def create_log_end_offsets(
    spark: SparkSession, bootstrap_servers: str, topics: Iterable[str], kafka: Mapping[str, str] | None = None
) -> None:
    """Create the temporary view `log_end_offsets` with the end offset that each topic-partition has at this call.

    `kafka` holds Kafka client properties with Java's names. Raises kafka.errors.KafkaError if the brokers do not
    return all end offsets.
    """
    poll = LogPoll(python_properties(bootstrap_servers, kafka or {}))
    try:
        partitions = [partition for topic in topics for partition in poll.partitions_of(topic)]
        ends = poll.ends(partitions)
    finally:
        poll.close()
    if missing := sorted(set(partitions) - ends.keys()):
        raise KafkaTimeoutError(
            f"the brokers did not return the log end offsets of {len(missing)} partitions in time, for example "
            f"{missing[0]}"
        )
    rows = [(partition.topic, partition.partition, offset) for partition, offset in ends.items()]
    spark.createDataFrame(rows, _LOG_END_SCHEMA).createOrReplaceTempView(LOG_END_OFFSETS)


def _current_records(spark: SparkSession, base: str, state: str) -> str:
    cut = spark.sql(f"SELECT max(struct(as_of_leader_epoch, as_of_batch_id)) AS cut FROM {base}").collect()[0]["cut"]
    leader_epoch, batch_id = cut or (-1, -1)
    return _text("current_records").format(base=base, state=state, leader_epoch=leader_epoch, batch_id=batch_id)


def _statement(name: str, source: str) -> str:
    return _text(name).replace(f"FROM {SHARE_GROUP_STATE.name}\n", f"FROM {source}\n", 1)


def _text(name: str) -> str:
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _register(spark: SparkSession, name: str, path: str) -> None:
    if spark.catalog.tableExists(name):
        detail = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
        if detail.get("Type") != "EXTERNAL":
            raise NameTakenError(f"{name} is already a managed table: choose another database")
        spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {name} USING DELTA LOCATION '{path}'")
