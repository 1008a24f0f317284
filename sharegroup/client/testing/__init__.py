"""A share group in memory, for tests of programs that use the share consumer. No broker and no JVM are needed.

    group = InMemoryShareGroup("billing", share_delivery_count_limit=3)
    group.produce("orders", b"1")
    consumer = ShareConsumer("localhost:9092", group_id="billing", topics=["orders"], connector=group)

The consumer sends the same requests as to a broker. The group processes them with the same state machines as the job.
"""

from sharegroup.client.testing.in_memory_share_group import InMemoryShareGroup
from sharegroup.client.testing.settable_clock import SettableClock
from sharegroup.client.testing.stored_partition import StoredRecord
from sharegroup.types import Cause, RecordState

__all__ = ["Cause", "InMemoryShareGroup", "RecordState", "SettableClock", "StoredRecord"]
