"""The state machine of a share-partition (KIP-932, "In-flight records").

Start with `share_partition.py`, which opens with the theory of operation.
"""

from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.share_partition import SharePartition
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig

__all__ = ["Outcome", "SharePartition", "SharePartitionConfig"]
