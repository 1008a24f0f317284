"""The label `group` of metrics. The number of its values is limited, to limit the size of a scrape."""

#: The label of all groups without their own label. Their metrics are added up.
OTHER = "(other)"


class GroupLabels:
    """Assigns labels to groups. The label of each of the first `limit` groups is its id.

    All other groups have the label `OTHER`. A group keeps this label until it is deleted, because its counts cannot be
    separated from the counts of the other groups with this label.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: set[str] = set()
        self._others: set[str] = set()

    def label_of(self, group_id: str) -> str:
        """Return the label of a group. If the group has no label yet, assign one."""
        if group_id in self._named:
            return group_id
        if len(self._named) < self._limit and group_id not in self._others:
            self._named.add(group_id)
            return group_id
        self._others.add(group_id)
        return OTHER

    def remove(self, group_id: str) -> bool:
        """Remove a deleted group, so that another group can get its own label. Return whether it had its own label."""
        self._others.discard(group_id)
        if group_id in self._named:
            self._named.discard(group_id)
            return True
        return False
