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
    """`handover` comes from the driver, `requested` has the ids of topics that unread requests concern, `batch` has the
    rows to send, and `now_ms` is a steady time.

    `pending` has the share-partitions that must be managed and are not, and `added` those of them whose rows are new.
    `removed` has those that are no longer managed, and `reconfigured` the groups whose config has changed.
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
