"""Sums up the sizes of the share-partitions that the job manages, for each group: lag, records in flight, and others.

The cost of an update or a scrape does not depend on the number of share-partitions. Sums are updated incrementally. The
oldest record of a group is at the top of a heap. Outdated entries of the heap are removed when they reach the top, or
when more than half of the entries are outdated.
"""

import heapq
from collections.abc import Iterator

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.group_labels import GroupLabels
from sharegroup.monitoring.metrics.log_ages import LogEnds, add_observation, oldest_ms
from sharegroup.monitoring.metrics.metric import Labels, Metric, MetricFamily, gauge
from sharegroup.monitoring.metrics.window_sizes import WindowSizes

_Key = tuple[str, str, int]
#: (lag, available, acquired, in flight, reserved, number of share-partitions), in the order of `_OF_GROUPS`.
_Sums = tuple[int, ...]
_OF_GROUPS = (
    catalogue.LAG,
    catalogue.AVAILABLE,
    catalogue.ACQUIRED,
    catalogue.IN_FLIGHT,
    catalogue.RESERVED,
    catalogue.MANAGED,
)
_NOTHING: _Sums = (0,) * len(_OF_GROUPS)
_OF_PARTITIONS = (catalogue.PARTITION_LAG, catalogue.PARTITION_ACQUIRED, catalogue.PARTITION_IN_FLIGHT)


class SharePartitionSizes:
    """The sizes of share-partitions (lag, records in flight and others), summed up for each group.

    Up to `most_partitions` share-partitions also have their own series.
    """

    def __init__(self, labels: GroupLabels, most_partitions: int) -> None:
        self._labels, self._most_partitions = labels, most_partitions
        # Plain tuples, which Python's garbage collector does not traverse, because there may be 100,000.
        self._known: dict[_Key, tuple[str, _Sums, LogEnds]] = {}
        self._sums: dict[str, _Sums] = {}
        self._oldest: dict[str, _Oldest] = {}
        self._named: dict[_Key, Labels] = {}

    def update(self, sizes: WindowSizes, now_ms: int) -> bool:
        """Replace the sizes of one share-partition, and update the sums. Sizes with `is_managed` False are removed.

        `now_ms` is the timestamp of the micro-batch that reported the sizes. Return whether the job manages the
        share-partition now and did not manage it before.
        """
        key = sizes.group_id, sizes.topic_id, sizes.partition
        before = self._known.pop(key, None)
        if before is not None:
            self._add(before[0], before[1], -1)
        if not sizes.is_managed:
            self._named.pop(key, None)
            if before is not None:
                self._set_oldest(before[0], key, None)
            return False
        label = before[0] if before else self._labels.label_of(sizes.group_id)
        sums = sizes.lag, sizes.available, sizes.acquired, sizes.in_flight, sizes.reserved_count, 1
        end = max(sizes.log_end_offset, sizes.end_offset) if sizes.lag else sizes.start_offset
        ages = add_observation(before[2] if before else (), sizes.start_offset, end, now_ms)
        self._known[key] = label, sums, ages
        self._add(label, sums, 1)
        self._set_oldest(label, key, oldest_ms(ages))
        if len(self._named) < self._most_partitions:
            self._named.setdefault(key, (sizes.group_id, sizes.topic, str(sizes.partition)))
        return before is None

    def families(self, now_ms: int) -> Iterator[MetricFamily]:
        groups = sorted(self._sums.items())
        for position, metric in enumerate(_OF_GROUPS):
            yield gauge(metric, [((label,), sums[position]) for label, sums in groups])
        ages = [((label,), self._age_s(label, now_ms)) for label, _ in groups]
        yield gauge(catalogue.OLDEST, ages)
        yield from self._of_partitions()

    def _of_partitions(self) -> Iterator[MetricFamily]:
        positions: dict[Metric, int] = dict(zip(_OF_PARTITIONS, (0, 2, 3), strict=True))
        for metric, position in positions.items():
            yield gauge(metric, [(labels, self._known[key][1][position]) for key, labels in self._named.items()])

    def _add(self, label: str, sums: _Sums, sign: int) -> None:
        total = tuple(have + sign * more for have, more in zip(self._sums.get(label, _NOTHING), sums, strict=True))
        if total[-1]:
            self._sums[label] = total
        else:
            self._sums.pop(label, None)

    def _set_oldest(self, label: str, key: _Key, since: int | None) -> None:
        oldest = self._oldest.get(label)
        if oldest is None:
            if since is None:
                return
            oldest = self._oldest[label] = _Oldest()
        oldest.set(key, since)
        if not oldest:
            del self._oldest[label]

    def _age_s(self, label: str, now_ms: int) -> float:
        oldest = self._oldest.get(label)
        return 0.0 if oldest is None else max(0.0, (now_ms - oldest.first()) / 1000)


class _Oldest:
    """The time of the oldest unfinished record of each share-partition of a group."""

    def __init__(self) -> None:
        self._since: dict[_Key, int] = {}
        self._heap: list[tuple[int, _Key]] = []

    def __len__(self) -> int:
        return len(self._since)

    def set(self, key: _Key, since: int | None) -> None:
        """Set the time of a share-partition's oldest unfinished record, None if all of its records are finished."""
        if since is None:
            self._since.pop(key, None)
        elif self._since.get(key) != since:
            self._since[key] = since
            heapq.heappush(self._heap, (since, key))
        if len(self._heap) > 2 * len(self._since) + 8:
            self._heap = [(since_ms, other) for other, since_ms in self._since.items()]
            heapq.heapify(self._heap)

    def first(self) -> int:
        """Return the time of the group's oldest unfinished record, in ms. At least one time must be set."""
        while self._since.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0]
