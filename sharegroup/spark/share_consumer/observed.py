"""The consumed records of a member's batch as a metric that Spark observes; each progress event contains it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.monitoring.metrics.member_counts import FETCH_MANAGER


def observed(ranges: DataFrame) -> DataFrame:
    """Return the source's rows, with the records and ranges of each batch observed under Kafka's names."""
    records = F.col("last_offset") - F.col("first_offset") + 1
    return ranges.observe(
        FETCH_MANAGER,
        F.coalesce(F.sum(records), F.lit(0)).alias("records-consumed"),
        F.coalesce(F.max(records), F.lit(0)).alias("records-per-range-max"),
        F.count(F.lit(1)).alias("ranges"),
    )
