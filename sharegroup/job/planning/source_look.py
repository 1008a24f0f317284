"""One look of the source of the share_partition query: what it is told, and what it finds step by step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sharegroup.job.clock.hand_over import HandOver
from sharegroup.job.knowledge.source_knowledge import SourceKnowledge
from sharegroup.job.planning.batch_plan import BatchPlan
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


@dataclass(frozen=True)
class SourceLook:
    """`told` is what the driver says, `requested` the ids of topics that unread requests are for, `batch` what is to be
    said, `now_ms` a steady time.

    `pending` are the share-partitions that are to be led and are not, `begun` those of them whose rows are news, `left`
    those that are led no more, `reconfigured` the groups whose config is another.
    """

    known: SourceKnowledge
    told: HandOver
    requested: Collection[str]
    now_ms: int
    batch: BatchPlan = field(default_factory=BatchPlan)
    pending: dict[SharePartitionKey, SharePartitionRow] = field(default_factory=dict)
    begun: set[SharePartitionKey] = field(default_factory=set)
    left: set[SharePartitionKey] = field(default_factory=set)
    reconfigured: set[str] = field(default_factory=set)
