"""What a shard knows between two micro-batches: its share-partitions, and who waits for them.

One text: a line of JSON, and behind it a line for each large piece of their windows, in the order of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sharegroup.core.operators.share_partition.demands import Demand, Demands
from sharegroup.core.operators.share_partition.departed_members import DepartedMembers
from sharegroup.core.operators.share_partition.incarnations import Incarnations
from sharegroup.core.operators.share_partition.led_partition import DumpedPartition, LedPartition
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfigs, SnapshotRules
from sharegroup.core.operators.share_partition.requesters import ParkedRequests, Requesters
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.json_text import from_json, to_json
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcquiredRange, SharePartitionKey

FORMAT_VERSION = 1
#: For how long it is remembered that a topic is no more: requests of its time may still come.
GONE_MS = 600_000


class ShardState:
    """Restored from what `dump` returned, None for a shard without a state.

    `topic` is the topic's name, as the source says it; `gone_ms` is since when it is no more, None while it is there.
    `now_ms` and `earliest_ms` are the present batch's: see `share_partition_shard`.

    Raises ValueError for a state of another format.
    """

    def __init__(self, group_id: str, topic_id: str, state: str | None) -> None:
        first_line, *texts = state.split("\n") if state else ("{}",)
        dumped = from_json(first_line)
        if dumped and dumped["version"] != FORMAT_VERSION:
            raise ValueError(
                f"operator state of format {dumped['version']}, this job reads {FORMAT_VERSION}: remove the checkpoint "
                "of the query share_partition (below checkpoint.path), and the job comes back from the tables"
            )
        self.group_id, self.topic_id = group_id, topic_id
        self.topic: str = dumped.get("topic", "")
        self.gone_ms: int | None = dumped.get("gone_ms")
        self.now_ms = self.earliest_ms = 0
        self.configs = PartitionConfigs(dumped.get("configs", {}), dumped.get("altered", {}))
        self.demands = Demands(dumped.get("demands", {}))
        self.parked = ParkedRequests(dumped.get("parked", ()))
        self.departed = DepartedMembers(dumped.get("departed", {}))
        self.incarnations = Incarnations(dumped.get("incarnations", {}))
        self.requesters = Requesters(dumped.get("requesters", {}))
        #: Dumped windows, restored when a row touches them.
        self._idle = _partitions(dumped.get("partitions", {}), iter(texts))
        self._live: dict[int, LedPartition] = {}

    def dump(self) -> str | None:
        """The whole state, None when there is nothing to keep."""
        partitions = {p: self._live[p].dump() if p in self._live else self._idle[p] for p in self.here()}
        if not (partitions or self.parked or self.departed or self.gone_ms is not None):
            return None
        known = {
            "version": FORMAT_VERSION,
            "topic": self.topic,
            "gone_ms": self.gone_ms,
            "configs": self.configs.dump(),
            "altered": self.configs.dump_altered(),
            "partitions": {str(p): dumped.values for p, dumped in partitions.items()},
            "demands": self.demands.dump(),
            "parked": self.parked.dump(),
            "departed": self.departed.dump(),
            "incarnations": self.incarnations.dump(),
            "requesters": self.requesters.dump(),
        }
        texts = [text for partition in partitions.values() for text in partition.texts]
        return "\n".join([to_json(known), *texts])

    # -- share-partitions ------------------------------------------------------------------------------------------

    def here(self) -> list[int]:
        """The share-partitions that this key leads, ascending."""
        return sorted({*self._idle, *self._live})

    def live(self) -> list[tuple[int, LedPartition]]:
        """Those of them that this batch has touched, ascending."""
        return sorted(self._live.items())

    def led(self, partition: int) -> LedPartition | None:
        """The share-partition, restored if it was idle so far; None if this key does not lead it."""
        if partition not in self._live and partition in self._idle:
            self._live[partition] = LedPartition.restore(self._idle.pop(partition))
        return self._live.get(partition)

    def lead(self, partition: int, led: LedPartition) -> None:
        """Lead it from now on."""
        self._live[partition] = led

    def forget(self, partition: int) -> list[FetchResponse]:
        """Lead it no more; the answers to the fetches that stood, which got nothing."""
        self._idle.pop(partition, None)
        self._live.pop(partition, None)
        self.requesters.drop(partition)
        self.configs.drop(partition)
        return self.give_up_demands(partition)

    def look_again(self, partition: int) -> None:
        """Another config may show another end of the log."""
        led = self.led(partition)
        if led is not None and led.log is not None:
            led.move_log(led.log, self.configs.of(partition))

    def key(self, partition: int) -> SharePartitionKey:
        """How rows name it."""
        return SharePartitionKey(self.group_id, self.topic, self.topic_id, partition)

    def config(self, partition: int) -> SharePartitionConfig:
        """The group's config in force at it."""
        return self.configs.of(partition).machine

    def topic_is_gone(self) -> RequestError:
        """What requests are refused with when the topic is no more."""
        message = f"topic {self.topic} with id {self.topic_id} was deleted"
        return RequestError(ErrorCode.UNKNOWN_TOPIC_ID, message)

    # -- demands ---------------------------------------------------------------------------------------------------

    def give_up_demands(self, partition: int) -> list[FetchResponse]:
        """The share-partition is not here any more, or not the same: answers to the fetches that stood."""
        return [self.demand_response(partition, demand) for demand in self.demands.drop(partition)]

    def demand_response(
        self, partition: int, demand: Demand, acquired: tuple[AcquiredRange, ...] = (), lock_deadline_ms: int = -1
    ) -> FetchResponse:
        """What a fetch that stood got, which may be nothing."""
        config = self.configs.of(partition)
        was_delivered = any(delivery_count > 1 for _, _, delivery_count in acquired)
        return FetchResponse(
            demand.id, demand.reply_to, *self.key(partition), demand.member_id,
            acquired=acquired, lock_deadline_ms=lock_deadline_ms, read_committed=config.read_committed,
            delivery_count_limit=config.machine.delivery_count_limit if was_delivered else 0,
        )  # fmt: skip

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self, records: SnapshotRules) -> int | None:
        """When the next of all these wants a tick, None: never."""
        deadlines = [led.next_deadline_ms(records) for led in self._live.values()]
        deadlines += [LedPartition.dumped_deadline_ms(dumped, records) for dumped in self._idle.values()]
        deadlines += [demand.deadline_ms for demand in self.demands]
        deadlines += [] if self.gone_ms is None else [self.gone_ms + GONE_MS]
        return min([*deadlines, *self.parked.deadlines_ms(), *self.departed.deadlines_ms()], default=None)


def _partitions(dumped: dict[str, Any], lines: Iterator[str]) -> dict[int, DumpedPartition]:
    """The share-partitions of the state's JSON, with their lines behind it."""
    return {int(partition): DumpedPartition.taken(values, lines) for partition, values in dumped.items()}
