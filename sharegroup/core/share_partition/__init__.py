"""The share-partition machine (KIP-932, "In-flight records"): pure state, no Spark, Kafka, clock or randomness.

`SharePartition` decides and replays; start reading at `share_partition.py`, which opens with its theory of operation.
"""

from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.share_partition import SharePartition
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig

__all__ = ["Outcome", "SharePartition", "SharePartitionConfig"]
