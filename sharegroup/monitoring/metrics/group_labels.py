"""Which groups have series of their own: a scrape has so many lines, however many groups there are."""

from __future__ import annotations

#: The `group` of what all groups without series of their own add up to.
OTHER = "(other)"


class GroupLabels:
    """The first `most` groups have their own label. One that came too late stays among the others while it is there:
    what was counted of it stays where it is."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()
        self._others: set[str] = set()

    def of(self, group_id: str) -> str:
        """The group's label."""
        if group_id in self._named:
            return group_id
        if len(self._named) < self._most and group_id not in self._others:
            self._named.add(group_id)
            return group_id
        self._others.add(group_id)
        return OTHER

    def forget(self, group_id: str) -> bool:
        """The group is no more: another may have its place. Whether it had a label of its own."""
        self._others.discard(group_id)
        if group_id in self._named:
            self._named.discard(group_id)
            return True
        return False
