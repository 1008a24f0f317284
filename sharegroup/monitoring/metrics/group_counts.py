"""Counts groups, members and share-partitions, from changes of rows in the group coordinator's tables."""

from collections import Counter as Bag
from collections.abc import Iterator, Mapping
from typing import Any

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.group_labels import GroupLabels
from sharegroup.monitoring.metrics.metric import Counter, MetricFamily, gauge

_Row = Mapping[str, Any]


class GroupCounts:
    """Counts groups, members, share-partitions and rebalances, from changes of rows in the group coordinator's tables.

    Methods get the previous version (`before`) and the new version (`after`) of a row. `before` is None for an added
    row, and `after` is None for a deleted row.
    """

    def __init__(self, labels: GroupLabels) -> None:
        self._labels = labels
        self._states: Bag[str] = Bag()
        self._members: Bag[str] = Bag()
        self._statuses: Bag[str] = Bag()
        self._rebalances = Counter(catalogue.REBALANCES)

    def reset(self) -> None:
        """Reset all counts except the rebalances.

        The caller must then call `update_group`, `update_member` and `update_share_partition` for every row of their
        tables, with `before` None.
        """
        for bag in (self._states, self._members, self._statuses):
            bag.clear()

    def update_group(self, before: _Row | None, after: _Row | None) -> str | None:
        """Apply a change of a row of `share_groups`.

        If the group was deleted and has its own label, remove its series and return the label. Otherwise return None.
        """
        _move(self._states, before and before["group_state"], after and after["group_state"])
        if after and not before:
            self._members[self._labels.label_of(after["group_id"])] += 0
            self._rebalances.add(0, self._labels.label_of(after["group_id"]))
        if before and after is None and self._labels.remove(before["group_id"]):
            self._rebalances.remove_series(before["group_id"])
            del self._members[before["group_id"]]
            return str(before["group_id"])
        return None

    def count_rebalances(self, before: _Row | None, after: _Row | None) -> None:
        """Count a group's rebalances: the increase of its epoch between two versions of its row in `share_groups`.

        The epoch of a new group counts from 1. If the epoch is lower than before, the group was deleted and created
        again, so its epoch also counts from 1.
        """
        if after is not None:
            epoch, last = after["group_epoch"], before["group_epoch"] if before is not None else 1
            self._rebalances.add(epoch - (last if last <= epoch else 1), self._labels.label_of(after["group_id"]))

    def update_member(self, before: _Row | None, after: _Row | None) -> None:
        """Apply a change of a row of `share_group_members`."""
        row = before or after
        if row is not None and (before is None) != (after is None):
            label = self._labels.label_of(row["group_id"])
            _move(self._members, before and label, after and label)

    def update_share_partition(self, before: _Row | None, after: _Row | None) -> None:
        """Apply a change of a row of `share_partitions`."""
        _move(self._statuses, before and before["status"], after and after["status"])

    def families(self) -> Iterator[MetricFamily]:
        states = {"Empty": 0, "Stable": 0, "Dead": 0} | self._states
        yield gauge(catalogue.GROUPS, [((state,), count) for state, count in states.items()])
        yield gauge(catalogue.MEMBERS, [((group,), count) for group, count in self._members.items()])
        statuses = {"initializing": 0, "initialized": 0, "deleting": 0} | self._statuses
        yield gauge(catalogue.SHARE_PARTITIONS, [((status,), count) for status, count in statuses.items()])
        yield self._rebalances.family()


def _move(bag: Bag[str], before: Any, after: Any) -> None:
    if before:
        bag[before] -= 1
    if after:
        bag[after] += 1
