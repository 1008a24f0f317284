"""Labels of groups. Their number is limited, which limits the size of a scrape."""

#: The label `group` of the sum of all groups without their own label.
OTHER = "(other)"


class GroupLabels:
    """The labels of groups: the first `limit` groups have their own.

    All other groups have the label `OTHER`. A group with this label keeps it, because its counts cannot be separated
    from those of the others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: set[str] = set()
        self._others: set[str] = set()

    def label_of(self, group_id: str) -> str:
        """Return the label of a group."""
        if group_id in self._named:
            return group_id
        if len(self._named) < self._limit and group_id not in self._others:
            self._named.add(group_id)
            return group_id
        self._others.add(group_id)
        return OTHER

    def remove(self, group_id: str) -> bool:
        """Remove a deleted group, so that another can have a label. Return whether the group had its own."""
        self._others.discard(group_id)
        if group_id in self._named:
            self._named.discard(group_id)
            return True
        return False
