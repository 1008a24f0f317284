"""One poll of the source of the share_partition query: its input, and its results so far."""

from collections.abc import Collection
from dataclasses import dataclass, field

from sharegroup.job.clock.handover import Handover
from sharegroup.job.knowledge.source_state import SourceState
from sharegroup.job.planning.batch_plan import BatchPlan
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


@dataclass(frozen=True)
class SourcePoll:
    """The input of one poll, and its results so far.

    Attributes:
        known: the source's state, which the poll updates.
        handover: what the driver has sent to the source.
        requested: the ids of the topics that unread requests concern.
        now_ms: the time of the poll, by the steady clock.
        batch: the input rows of the next micro-batch. The poll adds to them.
        pending: the share-partitions that must be managed and are not managed yet, with their rows of the table.
        added: the share-partitions that this poll added to `pending`, because their row in the table
            `share_partitions` is new or changed.
        removed: the share-partitions that this poll has stopped managing, and that their shards must unload.
        reconfigured: the groups whose config has changed.
    """

    known: SourceState
    handover: Handover
    requested: Collection[str]
    now_ms: int
    batch: BatchPlan = field(default_factory=BatchPlan)
    pending: dict[SharePartitionKey, SharePartitionRow] = field(default_factory=dict)
    added: set[SharePartitionKey] = field(default_factory=set)
    removed: set[SharePartitionKey] = field(default_factory=set)
    reconfigured: set[str] = field(default_factory=set)
