"""Counts the state transitions of records for each group, from the rows of the table `delivery_log`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.group_labels import GroupLabels
from sharegroup.monitoring.metrics.metric import Counter, Histogram, MetricFamily
from sharegroup.types import Cause, RecordState

#: The value of the label `reason` for records that were archived because of the delivery count limit.
DELIVERY_LIMIT = "delivery_limit"
_ACKNOWLEDGED = {cause.value for cause in (Cause.ACCEPT, Cause.RELEASE, Cause.REJECT, Cause.RENEW, Cause.GAP)}
_GIVEN_BACK = {Cause.MEMBER_LEFT.value, Cause.UNACQUIRE.value}
_REDELIVERED = {Cause.RELEASE.value, Cause.LOCK_TIMEOUT.value, Cause.MEMBER_LEFT.value}


class Deliveries:
    """Counts deliveries: the state transitions of records, for each group."""

    def __init__(self, labels: GroupLabels) -> None:
        self._labels = labels
        self._acquired = Counter(catalogue.RECORDS_ACQUIRED)
        self._acknowledged = Counter(catalogue.ACKNOWLEDGEMENTS)
        self._timeouts = Counter(catalogue.LOCK_TIMEOUTS)
        self._archived = Counter(catalogue.ARCHIVED)
        self._given_back = Counter(catalogue.GIVEN_BACK)
        self._delivery_counts = Histogram(catalogue.DELIVERY_COUNT)
        self._counters = self._acquired, self._acknowledged, self._timeouts, self._archived, self._given_back

    def add_series(self, group: str) -> None:
        """Add the series of a group with value 0, because Prometheus only detects increases of existing series."""
        self._acquired.add(0, group)
        self._timeouts.add(0, group)
        for reason in (DELIVERY_LIMIT, Cause.REJECT.value):
            self._archived.add(0, group, reason)
        for cause in sorted(_GIVEN_BACK):
            self._given_back.add(0, group, cause)
        for cause in sorted(_ACKNOWLEDGED):
            self._acknowledged.add(0, group, cause)

    def count_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count the records whose transitions are in these rows of `delivery_log`."""
        for row in rows:
            self._count(self._labels.label_of(row["group_id"]), row["last_offset"] - row["first_offset"] + 1, row)

    def _count(self, group: str, records: int, row: Mapping[str, Any]) -> None:
        cause = row["cause"]
        if cause == Cause.FETCH.value:
            self._acquired.add(records, group)
            self._delivery_counts.observe(row["delivery_count"], group, times=records)
        elif cause in _ACKNOWLEDGED:
            self._acknowledged.add(records, group, cause)
        elif cause == Cause.LOCK_TIMEOUT.value:
            self._timeouts.add(records, group)
        elif cause in _GIVEN_BACK:
            self._given_back.add(records, group, cause)
        if row["to_state"] == RecordState.ARCHIVED.name and cause != Cause.UNCLEAN_ELECTION.value:
            self._archived.add(records, group, DELIVERY_LIMIT if cause in _REDELIVERED else cause)

    def remove_series(self, group: str) -> None:
        """Remove the series of a deleted group."""
        for series in (*self._counters, self._delivery_counts):
            series.remove_series(group)

    def families(self) -> Iterator[MetricFamily]:
        for counter in self._counters:
            yield counter.family()
        yield self._delivery_counts.family()
