"""The Delta tables: every schema and path in one place. They are public API; docs/tables.md describes each column.

Times are UTC timestamps with microseconds; offsets, ranges and names are Kafka's. `day` partitions the append-only
tables, so that pruning removes whole files. `chunk` partitions the tables of current state, so that a commit rewrites
only the files of the rows that it changes. Column comments are in the Delta schema, where DESCRIBE TABLE shows them.
"""

from dataclasses import dataclass

import pyarrow as pa

_TIMESTAMP = pa.timestamp("us", tz="UTC")
#: The partition column of a table of current state.
CHUNK = "chunk"
#: The table property that holds the version of the tables' format, and the version that this code reads and writes.
FORMAT_PROPERTY, FORMAT_VERSION = "sharegroup.format", "1"


def _column(name: str, kind: pa.DataType, comment: str, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"comment": comment})


#: The chunk number has no meaning for readers: it may change for a row when other rows change.
_CHUNK = _column(
    CHUNK,
    pa.int32(),
    "number of the group of rows that are written together; the partition column, chosen by the writer",
)


@dataclass(frozen=True)
class TableSpec:
    """The name and schema of a table.

    `key` contains the columns that identify a row in a table of current state. It is empty for other tables.
    """

    name: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def is_append_only(self) -> bool:
        """Whether a micro-batch only appends rows to the table, instead of replacing rows that have the same key."""
        return not self.key


def table_path(root: str, spec: TableSpec) -> str:
    """Return the table's path below the configured `tables.path` (a directory or an object-store URL)."""
    return f"{root.rstrip('/')}/{spec.name}"


STATE_BATCH = pa.struct(
    [
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("delivery_state", pa.int8()),
        pa.field("delivery_count", pa.int16()),
        pa.field("member_id", pa.string()),
        pa.field("lock_deadline", _TIMESTAMP),
    ]
)

SHARE_GROUP_STATE = TableSpec(
    "share_group_state",
    pa.schema(
        [
            _column("day", pa.date32(), "day of `time`; the partition column"),
            _column("group_id", pa.string(), "share group"),
            _column("topic", pa.string(), "topic of the share-partition"),
            _column("topic_id", pa.string(), "topic id; a topic that is created again under the name has another one"),
            _column("partition", pa.int32(), "partition of the share-partition"),
            _column("record_type", pa.string(), "ShareSnapshot, ShareUpdate (KIP-932) or Tombstone"),
            _column("snapshot_epoch", pa.int32(), "epoch of this snapshot, or of the one that this update follows"),
            _column("state_epoch", pa.int32(), "raised by each initialisation and offset reset; -1: not updated"),
            _column("leader_epoch", pa.int32(), "leader epoch of the job that wrote the record"),
            _column("start_offset", pa.int64(), "share-partition start offset (SPSO); -1: not updated"),
            _column("end_offset", pa.int64(), "share-partition end offset (SPEO), exclusive"),
            _column("delivery_complete_count", pa.int64(), "finished records from the SPSO up; -1: not updated"),
            _column(
                "state_batches",
                pa.list_(STATE_BATCH),
                "ranges and their states: 0 available, 1 acquired (with member and lock deadline; with delivery count "
                "0: reserved for a gateway, until its lease ends), 2 acknowledged, 4 archived; an update holds only "
                "what changed",
            ),
            _column("batch_id", pa.int64(), "micro-batch that wrote the record"),
            _column("time", _TIMESTAMP, "the micro-batch's timestamp"),
        ]
    ),
    partition_by=("day",),
)

#: The columns that describe the cut (the version that the base represents, see `reading.state_base`) come first,
#: because the table's log has statistics of the first columns only.
SHARE_GROUP_STATE_BASE = TableSpec(
    "share_group_state_base",
    pa.schema(
        [
            _column("as_of_version", pa.int64(), "version of share_group_state as of which these rows have the states"),
            _column("as_of_leader_epoch", pa.int32(), "leader epoch of the newest record that is in these rows"),
            _column("as_of_batch_id", pa.int64(), "micro-batch of the newest record that is in these rows"),
            _column("group_id", pa.string(), "share group; null in the one row of a base without share-partitions"),
            _column("topic", pa.string(), "topic of the share-partition"),
            _column("topic_id", pa.string(), "topic id; a topic that is created again under the name has another one"),
            _column("partition", pa.int32(), "partition of the share-partition"),
            _column("snapshot_epoch", pa.int32(), "epoch of the newest snapshot"),
            _column("state_epoch", pa.int32(), "raised by each initialisation and offset reset"),
            _column("leader_epoch", pa.int32(), "leader epoch of the job that wrote the newest record"),
            _column("start_offset", pa.int64(), "share-partition start offset (SPSO); -1: not known"),
            _column("end_offset", pa.int64(), "share-partition end offset (SPEO), exclusive"),
            _column("delivery_complete_count", pa.int64(), "finished records from the SPSO up; -1: not known"),
            _column("state_batches", pa.list_(STATE_BATCH), "all ranges and their states, as in share_group_state"),
            _column("updates_since_snapshot", pa.int32(), "updates after the newest snapshot"),
            _column("snapshot_time", _TIMESTAMP, "the newest snapshot's time"),
            _column("batch_id", pa.int64(), "micro-batch that wrote the newest record"),
            _column("time", _TIMESTAMP, "the newest record's time"),
        ]
    ),
)

DELIVERY_LOG = TableSpec(
    "delivery_log",
    pa.schema(
        [
            _column("day", pa.date32(), "day of `time`; the partition column"),
            _column("group_id", pa.string(), "share group"),
            _column("topic", pa.string(), "topic"),
            _column("topic_id", pa.string(), "topic id; a topic that is created again under the name has another one"),
            _column("partition", pa.int32(), "partition"),
            _column("first_offset", pa.int64(), "first offset of the range that changed its state"),
            _column("last_offset", pa.int64(), "last offset of the range, included"),
            _column("from_state", pa.string(), "AVAILABLE, ACQUIRED, ACKNOWLEDGED or ARCHIVED"),
            _column("to_state", pa.string(), "the same, after the transition"),
            _column(
                "cause",
                pa.string(),
                "fetch, accept, release, reject, renew, gap, lock_timeout, member_left, unacquire, log_truncated, "
                "reset, topic_deleted, unclean_election",
            ),
            _column("member_id", pa.string(), "member that holds or held the range"),
            _column("delivery_count", pa.int16(), "delivery count after the transition"),
            _column("lock_deadline", _TIMESTAMP, "end of the acquisition lock, when ACQUIRED"),
            _column("leader_epoch", pa.int32(), "leader epoch of the job that wrote the row"),
            _column("batch_id", pa.int64(), "micro-batch that wrote the row"),
            _column("time", _TIMESTAMP, "the micro-batch's timestamp"),
        ]
    ),
    partition_by=("day",),
)

SHARE_GROUPS = TableSpec(
    "share_groups",
    pa.schema(
        [
            _column("group_id", pa.string(), "share group"),
            _column("group_epoch", pa.int32(), "raised whenever a new assignment is needed (KIP-848)"),
            _column("assignment_epoch", pa.int32(), "group epoch of the current assignment"),
            _column("group_state", pa.string(), "Empty, Stable or Dead"),
            _column("time", _TIMESTAMP, "when the row was written"),
            _CHUNK,
        ]
    ),
    partition_by=(CHUNK,),
    key=("group_id",),
)

SHARE_GROUP_MEMBERS = TableSpec(
    "share_group_members",
    pa.schema(
        [
            _column("group_id", pa.string(), "share group"),
            _column("member_id", pa.string(), "UUID that the client generated"),
            _column("member_epoch", pa.int32(), "epoch of the member"),
            _column("rack_id", pa.string(), "rack of the client, or null"),
            _column("client_id", pa.string(), "client.id"),
            _column("client_host", pa.string(), "host of the client"),
            _column("subscribed_topic_names", pa.list_(pa.string()), "subscription, sorted"),
            _column(
                "assignment",
                pa.list_(
                    pa.struct(
                        [
                            pa.field("topic", pa.string()),
                            pa.field("topic_id", pa.string()),
                            pa.field("partitions", pa.list_(pa.int32())),
                        ]
                    )
                ),
                "assigned partitions, by topic",
            ),
            _column("group_instance_id", pa.string(), "name of a static member (KIP-345); null for a dynamic one"),
            _column(
                "incarnation_id",
                pa.string(),
                "id of the process that joined last as this member; empty after a static member has left for a "
                "restart; null if the process sent none",
            ),
            _column(
                "joined_ms",
                pa.int64(),
                "append time of the join by which that process replaced another one, in ms since 1970; null if it "
                "replaced none",
            ),
            _column("time", _TIMESTAMP, "when the row was written"),
            _CHUNK,
        ]
    ),
    partition_by=(CHUNK,),
    key=("group_id", "member_id"),
)

SHARE_PARTITIONS = TableSpec(
    "share_partitions",
    pa.schema(
        [
            _column("group_id", pa.string(), "share group"),
            _column("topic", pa.string(), "topic"),
            _column("topic_id", pa.string(), "topic id; made from cluster and name if the broker has none"),
            _column("partition", pa.int32(), "partition"),
            _column("status", pa.string(), "initializing, initialized or deleting"),
            _column("state_epoch", pa.int32(), "epoch of the initialisation; a reset raises it"),
            _column("start_offset", pa.int64(), "where to start; -1: decided by auto_offset_reset"),
            _column(
                "auto_offset_reset",
                pa.string(),
                "share.auto.offset.reset of the group when the row was written, where start_offset is -1; else null",
            ),
            _column("time", _TIMESTAMP, "when the row was written"),
            _CHUNK,
        ]
    ),
    partition_by=(CHUNK,),
    key=("group_id", "topic_id", "partition"),
)

SHARE_GROUP_CONFIGS = TableSpec(
    "share_group_configs",
    pa.schema(
        [
            _column("group_id", pa.string(), "share group"),
            _column("config_name", pa.string(), "a GROUP config, by Kafka's name"),
            _column("config_value", pa.string(), "its value as text"),
            _column(
                "config_source",
                pa.string(),
                "DYNAMIC_GROUP_CONFIG: set by a request, takes precedence; STATIC_BROKER_CONFIG: from the job's file; "
                "LAST_ALTERED: not a config: the time at which a request last altered the group's configs "
                "(`config_value`, in ms)",
            ),
            _column("time", _TIMESTAMP, "when the row was written"),
            _CHUNK,
        ]
    ),
    partition_by=(CHUNK,),
    key=("group_id", "config_name", "config_source"),
)

SHARE_GROUP_JOB = TableSpec(
    "share_group_job",
    pa.schema(
        [
            _column("query", pa.string(), "share_partition or group_coordinator"),
            _column("leader_epoch", pa.int32(), "raised by each start of the job; the highest one leads"),
            _column("query_id", pa.string(), "the streaming query's id (UUID), the txn appId of its appends"),
            _column("application_id", pa.string(), "Spark application"),
            _column(
                "positions",
                pa.map_(pa.int32(), pa.int64()),
                "request topic: next unread offset by partition when this leader started",
            ),
            _column("time", _TIMESTAMP, "when the leader started"),
        ]
    ),
)

#: The tables of each query, in the order of its commit steps. The commit of the first table contains the batch's outbox
#: (the rows that the later steps write and send).
SHARE_PARTITION_TABLES = (SHARE_GROUP_STATE, DELIVERY_LOG)
GROUP_COORDINATOR_TABLES = (SHARE_GROUPS, SHARE_GROUP_MEMBERS, SHARE_PARTITIONS, SHARE_GROUP_CONFIGS)
ALL_TABLES = (*SHARE_PARTITION_TABLES, SHARE_GROUP_STATE_BASE, *GROUP_COORDINATOR_TABLES, SHARE_GROUP_JOB)
