"""A member's subscription: topics by name, or all topics whose names match a pattern at each metadata refresh."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

#: The prefix of Kafka's and the job's own topics; no pattern matches them, as with Kafka's exclude.internal.topics.
_INTERNAL = "__"


class Subscription(NamedTuple):
    """`topics` by name in ascending order, or a `pattern`, a Python regular expression that matches whole names."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def from_arguments(cls, topics: Sequence[str] | None, pattern: str | None) -> Self:
        """Return the subscription of a user's arguments, exactly one of which must be given. Raises ValueError."""
        if (topics is None) == (pattern is None):
            raise ValueError("either topics or a pattern must be given")
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from None
            return cls(pattern=pattern)
        if isinstance(topics, str) or not topics:
            raise ValueError("topics must be a list of at least one topic name")
        return cls(tuple(sorted(set(topics))))

    def matching_topics(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the topics of the cluster that match the pattern, in ascending order."""
        assert self.pattern is not None
        expression = re.compile(self.pattern)
        return tuple(sorted(name for name in names if expression.fullmatch(name) and not name.startswith(_INTERNAL)))
