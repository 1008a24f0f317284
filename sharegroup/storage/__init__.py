"""The Delta tables without Spark. This module exports the functions that read groups, offsets and configs.

These functions need only deltalake, so a gateway, a notebook or a script can use them while a job runs. Reading never
disturbs a job. Each function takes a `tables.path`, or a `CachedTables` for repeated reads. The tables are committed
one after another, so rows that are read from two tables may be of slightly different times.
"""

from sharegroup.storage.following.cached_tables import CachedTables
from sharegroup.storage.reading.delivery_log import RecordTransition, read_record_history
from sharegroup.storage.reading.group_configs import read_group_configs
from sharegroup.storage.reading.groups import (
    GroupListing,
    MemberDescription,
    ShareGroupDescription,
    SharePartitionDescription,
    read_group,
    read_group_descriptions,
    read_groups,
)
from sharegroup.storage.reading.in_flight import InFlightRange, read_in_flight
from sharegroup.storage.reading.offsets import SharePartitionOffset, read_offsets_by_group, read_share_group_offsets
from sharegroup.storage.rows import TableMissingError, TableUnavailableError
from sharegroup.storage.schemas import table_path

__all__ = [
    "CachedTables",
    "GroupListing",
    "InFlightRange",
    "MemberDescription",
    "RecordTransition",
    "ShareGroupDescription",
    "SharePartitionDescription",
    "SharePartitionOffset",
    "TableMissingError",
    "TableUnavailableError",
    "read_group",
    "read_group_configs",
    "read_group_descriptions",
    "read_groups",
    "read_in_flight",
    "read_offsets_by_group",
    "read_record_history",
    "read_share_group_offsets",
    "table_path",
]
