"""A share-partition the slow and obvious way: a dictionary of offsets, rules written out offset by offset.

The machine is compared with it on random operations. It has no loaded holes and no lost records' locks. A record that
is ACQUIRED with delivery count 0 is reserved, and then `member` is a gateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sharegroup.core.share_partition import SharePartitionConfig
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, OffsetRange, RecordState

STATES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class Refused(Exception):
    """The name of the Kafka error."""


@dataclass(frozen=True)
class Record:
    state: RecordState
    count: int
    batch: tuple[int, int]
    member: str | None = None
    deadline: int | None = None
    #: Who held it last, of one that is AVAILABLE because its lock ran out or its member left.
    lost_by: str | None = None

    @property
    def is_reserved(self) -> bool:
        return self.state is RecordState.ACQUIRED and self.count == 0


@dataclass
class PerOffsetModel:
    start: int
    log_end: int
    records: dict[int, Record] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def acquire(self, member: str, max_records: int, now: int, config: SharePartitionConfig) -> list[tuple[int, int]]:
        """(offset, delivery count) of each acquired record."""
        limit = config.delivery_count_limit
        threshold = max(2, -(-limit // 2))
        available = [o for o in sorted(self.records) if self.records[o].state is RecordState.AVAILABLE]
        budget, last = min(max_records, config.max_record_locks - len(self.records)), self.log_end - 1
        if config.max_record_locks <= len(self.records):
            if not available:
                return []
            budget, last = min(max_records, self.end - available[0]), min(self.end, self.log_end) - 1
        available = [o for o in available if o <= last]
        taken: list[int] = []
        throttled = False
        for batch in sorted({self.records[o].batch for o in available}):
            mine = [o for o in available if self.records[o].batch == batch]
            throttled = any(self.records[o].count >= threshold for o in mine)
            if len(taken) >= budget or (throttled and taken):
                break
            taken += self._take(mine, budget - len(taken), batch[1] - batch[0] + 1, threshold, limit)
            if throttled:
                break
        if not throttled:
            new = list(range(self.end, last + 1))[: max(0, budget - len(taken))]
            for offset in new:
                self.records[offset] = Record(RecordState.AVAILABLE, 0, (new[0], new[-1]))
            taken += new
        for offset in taken:
            old = self.records[offset]
            deadline = now + config.record_lock_duration_ms
            self.records[offset] = Record(RecordState.ACQUIRED, old.count + 1, old.batch, member, deadline)
        return [(offset, self.records[offset].count) for offset in taken]

    def _take(self, offsets: list[int], room: int, length: int, threshold: int, limit: int) -> list[int]:
        taken: list[int] = []
        share = -1
        for offset in offsets:
            count = self.records[offset].count
            last_delivery = limit > 2 and count == limit - 1
            if last_delivery and taken:
                break
            if count >= threshold and share < 0:
                share = max(1, length >> (count - threshold + 1))
            taken.append(offset)
            if last_delivery or len(taken) == room or len(taken) == share:
                break
        return taken

    def acknowledge(
        self,
        member: str,
        batches: list[AcknowledgementBatch],
        grants: list[tuple[int, int, int]],
        now: int,
        config: SharePartitionConfig,
    ) -> list[tuple[int, int]]:
        """What is renewed, as (offset, delivery count)."""
        after = dict(self.records)
        renewed: list[tuple[int, int]] = []
        granted = {offset: count for first, last, count in grants for offset in range(first, last + 1)}
        for first, last, types in batches:
            if last < self.start:
                continue
            if not after:
                raise Refused("INVALID_RECORD_STATE")
            if last >= self.end or after[last].is_reserved:
                raise Refused("INVALID_REQUEST")
            for offset in range(max(first, self.start), last + 1):
                record = after[offset]
                if record.state is not RecordState.ACQUIRED or record.member != member or record.is_reserved:
                    raise Refused("INVALID_RECORD_STATE")
                if grants and granted.get(offset) != record.count:
                    raise Refused("INVALID_RECORD_STATE")
                type_ = types[0] if len(types) == 1 else types[offset - first]
                if type_ == AcknowledgeType.RENEW:
                    after[offset] = replace(record, deadline=now + config.record_lock_duration_ms)
                    renewed.append((offset, record.count))
                else:
                    after[offset] = self._let_go(record, STATES[AcknowledgeType(type_)], config)
        if any(after[o].state is not record.state for o, record in self.records.items()):
            self.records = after
            self._advance()
        self.records = {o: after[o] for o in self.records}
        return renewed

    def expire(self, now: int, config: SharePartitionConfig) -> None:
        self._release([o for o, r in self.records.items() if r.deadline is not None and r.deadline < now], config)

    def release_member(self, member: str, config: SharePartitionConfig) -> None:
        self._release([o for o, r in self.records.items() if r.member == member], config)

    def unacquire(self, member: str, ranges: list[tuple[int, int]]) -> None:
        offsets = [o for first, last in ranges for o in range(max(first, self.start), last + 1)]
        for offset in offsets:
            record = self.records.get(offset)
            if record is None or record.member != member or offsets.count(offset) > 1:
                raise Refused("INVALID_RECORD_STATE")
        for offset in offsets:
            record = self.records[offset]
            self.records[offset] = Record(RecordState.AVAILABLE, record.count - 1, record.batch)

    def undo_deliveries(self, member: str, grants: list[tuple[int, int, int]]) -> None:
        taken = set()
        for first, last, count in sorted(grants):
            for offset in range(max(first, max(taken, default=-1) + 1), last + 1):
                record = self.records.get(offset)
                if record is None or record.count != count:
                    continue
                if member in (record.member, record.lost_by):
                    self.records[offset] = Record(RecordState.AVAILABLE, count - 1, record.batch)
                    taken.add(offset)

    def reserve(self, gateway: str, records: int, config: SharePartitionConfig) -> None:
        available = [o for o, r in self.records.items() if r.state is RecordState.AVAILABLE]
        room = config.max_record_locks - len(self.records)
        if any(o < self.log_end for o in available) or (not available and self.end < self.log_end and room > 0):
            return
        mine = [o for o, r in self.records.items() if r.is_reserved and r.member == gateway]
        free = [*sorted(o for o in available if not self.records[o].count), *range(self.end, self.end + room)]
        for offset in free[: max(0, records - len(mine))] if room > 0 else ():
            self.records[offset] = Record(RecordState.ACQUIRED, 0, (-1, -1), gateway)

    def assign(
        self, gateway: str, member: str, ranges: list[OffsetRange], now: int, config: SharePartitionConfig
    ) -> None:
        pieces = [(max(first, self.start), last) for first, last in sorted(ranges) if last >= self.start]
        offsets = [o for first, last in pieces for o in range(first, last + 1)]
        for offset in offsets:
            record = self.records.get(offset)
            held = record is not None and record.is_reserved and record.member == gateway
            if not held or offsets.count(offset) > 1:
                raise Refused("INVALID_RECORD_STATE")
        for first, last in pieces:
            for o in range(first, last + 1):
                deadline = now + config.record_lock_duration_ms
                self.records[o] = Record(RecordState.ACQUIRED, 1, (first, last), member, deadline)

    def unreserve(self, gateway: str, ranges: list[OffsetRange] | None) -> None:
        offsets = {o for first, last in ranges for o in range(first, last + 1)} if ranges is not None else None
        mine = [o for o, r in self.records.items() if r.is_reserved and r.member == gateway]
        self._free([o for o in mine if offsets is None or o in offsets])

    def _free(self, offsets: list[int]) -> None:
        """End the reservation of consecutive offsets as one fetch batch; forget undelivered records at the end."""
        runs: list[list[int]] = []
        for offset in sorted(offsets):
            follows = runs and runs[-1][-1] == offset - 1
            if follows and self.records[offset].member == self.records[offset - 1].member:
                runs[-1].append(offset)
            else:
                runs.append([offset])
        for run in runs:
            for offset in run:
                self.records[offset] = Record(RecordState.AVAILABLE, 0, (run[0], run[-1]))
        while offsets and self.records:
            last = self.records[self.end - 1]
            if last.state is not RecordState.AVAILABLE or last.count:
                break
            del self.records[self.end - 1]

    def _release(self, offsets: list[int], config: SharePartitionConfig) -> None:
        unused = [o for o in offsets if self.records[o].is_reserved]
        offsets = [o for o in offsets if o not in unused]
        for offset in offsets:
            member = self.records[offset].member
            self.records[offset] = self._let_go(self.records[offset], RecordState.AVAILABLE, config)
            if self.records[offset].state is RecordState.AVAILABLE:
                self.records[offset] = replace(self.records[offset], lost_by=member)
        if offsets:
            self._advance()
        self._free(unused)

    @staticmethod
    def _let_go(record: Record, state: RecordState, config: SharePartitionConfig) -> Record:
        if state is RecordState.AVAILABLE and record.count >= config.delivery_count_limit:
            state = RecordState.ARCHIVED
        return Record(state, record.count, record.batch)

    def _advance(self) -> None:
        while self.start in self.records and self.records[self.start].state.is_terminal:
            del self.records[self.start]
            self.start += 1
