"""A Spark job as a member of a share group: see `ShareConsumer`.

Theory of operation
-------------------
    driver's Python                                        Python source          Spark
    Member (one thread)        -- offer file (a batch) -->  claims it        -->  micro-batch, offset log
      heartbeats, demands,                                                          |
      read-ahead, renewals    <-- the batch runs in foreachBatch: BatchRunner  <----+
                                     records by Spark's Kafka reader, handle(), acknowledge

The member asks for ranges ahead of the running batch and offers the next batch to the source, which is another
process, as a file; claiming it is a rename, so both sides agree on who has it. Once claimed, the ranges are in Spark's
offset log and the batch will run, now or after a restart; until then the member may give them back (`unacquire`), and
does so when half of their lock is gone. So a slow handler holds up nobody but itself, up to the group's limit on record
locks; a hung one loses its records after `max_processing_ms`, when their locks are renewed no more.

A batch that Spark runs again after a restart has its ranges renewed before anything else. What the answers do not list
as renewed was finished, by us or by others, or is not ours any more (it comes back, to us or to others): the handler
does not see it. What they list has today's delivery counts, which its acknowledgements name. Where the group allows no
renewals nobody can be asked, and others may have what the earlier process has released: the batch is left out as a
whole, and its records come back when their locks run out.

A topic that is made again under its name is another one. What is held of the old one is forgotten as soon as the
assignment names the new one, or the job answers UNKNOWN_TOPIC_ID; a running batch of it counts as lost.

Modules: `ranges` (data); `membership`, `fetch_demands`, `acknowledgement_round` (the protocol, without I/O), `holdings`
(what the member holds), `member_logic` and `batch_calls` (all of these as one member), `batch_plan`, `acquired_batch`,
`acknowledgements` (pure); `row_channel` (Kafka), `offer_file`, `member` (the thread); `source`, `records`,
`batch_runner`, `consumer`, `consumer_query`, `lock_guard`, `delta_sink` (Spark).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
    from sharegroup.spark.share_consumer.consumer import ShareConsumer
    from sharegroup.spark.share_consumer.consumer_query import ShareConsumerQuery
    from sharegroup.spark.share_consumer.delta_sink import DeltaSink

__all__ = ["AcquiredBatch", "DeltaSink", "ShareConsumer", "ShareConsumerQuery"]

_MODULES = {
    "AcquiredBatch": "acquired_batch",
    "DeltaSink": "delta_sink",
    "ShareConsumer": "consumer",
    "ShareConsumerQuery": "consumer_query",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
