"""Conversion of Kafka records to the operators' rows and keys; Python can read the row for any bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from sharegroup.core.operators import rows
from sharegroup.job.knowledge.shard_keys import UNKEYED
from sharegroup.spark.queries.share_partition_query import keyed_by_shard, request_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KAFKA = "value BINARY, partition INT, offset LONG, timestamp TIMESTAMP"
AT = datetime(2024, 5, 20, 12, 0, 0, 123_000, tzinfo=UTC)
AT_MS = 1_716_206_400_123


@pytest.fixture(scope="module")
def keyed(spark: SparkSession) -> DataFrame:
    values = [
        b'{"group_id":"g","topic_id":"id","partition":5}',
        '{"group_id":"gr\u00fc\\tsse","topic_id":"id","partition":4}'.encode(),
        b'{"group_id":"g","topic_id":"id","partition":-1}',
        b'{"group_id":"g","topic_id":"id","partition":99999999999}',
        b'{"group_id":"g","topic_id":"id"}',
        b"\xff\xfe",
        b'{"group_id":"\xff","topic_id":"id","partition":0}',
        b"[" * 5_000,
        b"",
        None,
    ]
    records = [(value, 3, offset, AT) for offset, value in enumerate(values)]
    return keyed_by_shard(request_texts(spark.createDataFrame(records, KAFKA)), shards=4)


def test_the_key_is_the_shard_that_leads_the_share_partition(spark: SparkSession, keyed: DataFrame) -> None:
    keys = ["g\tid\t1", "gr\u00fc\tsse\tid\t0", "g\tid\t3", UNKEYED, UNKEYED, UNKEYED, "\ufffd\tid\t0"]
    expected = spark.createDataFrame([(key,) for key in [*keys, UNKEYED, UNKEYED, UNKEYED]], "shard_key STRING")
    assert_df_equality(keyed.select("shard_key"), expected, ignore_nullable=True)


def test_a_row_has_coordinates_and_is_text_for_any_bytes(keyed: DataFrame) -> None:
    frame = keyed.toPandas()
    decoded = [rows.decode_row(row).request for row in frame["row"]]
    assert [request[:3] for request in decoded if request] == [(3, offset, AT_MS) for offset in range(10)]
    values = [request.value for request in decoded if request]
    assert values[0] == '{"group_id":"g","topic_id":"id","partition":5}'
    assert values[5] == "\ufffd\ufffd"
    assert values[7:] == ["[" * 5_000, "", ""]
