"""A member's subscription: a list of topic names, or a pattern that is matched at each metadata refresh."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

#: The prefix of Kafka's and the job's own topics; no pattern matches them, as with Kafka's exclude.internal.topics.
_INTERNAL = "__"


class Subscription(NamedTuple):
    """The topics that a member subscribes to: those in `topics`, or all that match `pattern`.

    `topics` is sorted. `pattern` is a Python regular expression that must match the whole name; None if the
    subscription is a list of names.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def from_arguments(cls, topics: Sequence[str] | None, pattern: str | None) -> Self:
        """Return the subscription for the arguments of a user. Exactly one of the two arguments must be given.

        Raises ValueError if none or both are given, or if the given one is invalid.
        """
        if (topics is None) == (pattern is None):
            raise ValueError("exactly one of topics and pattern must be given")
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
        """Return the sorted `names` that match the pattern, without names of internal topics (`__...`).

        The subscription must have a pattern.
        """
        assert self.pattern is not None
        expression = re.compile(self.pattern)
        return tuple(sorted(name for name in names if expression.fullmatch(name) and not name.startswith(_INTERNAL)))
