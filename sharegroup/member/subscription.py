"""What a member reads: topics by name, or all whose names match a pattern, as they are at each look at the metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Kafka's own topics, and the job's: no pattern means them, as with Kafka's exclude.internal.topics.
_INTERNAL = "__"


class Subscription(NamedTuple):
    """`topics` by name, ascending; or a `pattern`, a regular expression of Python's that matches whole names."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def of(cls, topics: Sequence[str] | None, pattern: str | None) -> Subscription:
        """Of what a user gives: one of the two. Raises ValueError for anything else."""
        if (topics is None) == (pattern is None):
            raise ValueError("either topics or a pattern must be given")
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from None
            return cls(pattern=pattern)
        if isinstance(topics, str) or not topics:
            raise ValueError("topics must be a list of at least one topic name")
        return cls(tuple(sorted(set(topics))))

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the cluster's topics that the pattern means, ascending."""
        assert self.pattern is not None
        meant = re.compile(self.pattern)
        return tuple(sorted(name for name in names if meant.fullmatch(name) and not name.startswith(_INTERNAL)))
