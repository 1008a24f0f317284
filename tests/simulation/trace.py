"""The events of a run, line by line: as text, and as a hash that two runs of a seed must share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.simulation.virtual_clock import Scheduler


class TraceLine(NamedTuple):
    """`about` names the objects of the line (share-partitions as "group topic-partition"); empty: all of them."""

    time_us: int
    actor: str
    text: str
    about: tuple[str, ...]


class Trace:
    """The recorder of events. Without `keep` only the hash is computed."""

    def __init__(self, clock: Scheduler, keep: bool = True) -> None:
        self._clock = clock
        self._keep = keep
        self._hash = hashlib.blake2b(digest_size=12)
        self.lines: list[TraceLine] = []

    def add(self, actor: str, text: str | Callable[[], str], *about: str) -> None:
        """Record an event. `text` may be a function if creating the text costs more than the event."""
        self._hash.update(f"{self._clock.now_us} {actor} {text if isinstance(text, str) else ''}\n".encode())
        if self._keep:
            self.lines.append(TraceLine(self._clock.now_us, actor, text if isinstance(text, str) else text(), about))

    @property
    def digest(self) -> str:
        """Return the hash of all lines so far."""
        return self._hash.hexdigest()

    def text(self, about: str = "") -> str:
        """Return all lines, or those about one share-partition or everything; times are seconds since the begin."""
        return "\n".join(self._format(self._of(about) if about else self.lines))

    def _of(self, about: str) -> list[TraceLine]:
        """Return the lines of a share-partition and its topic partition, without actors of other groups."""
        group_id, _, partition = about.partition(" ")
        return [
            line
            for line in self.lines
            if about in line.about
            or partition in line.about
            or (not line.about and not self._is_of_another(line, group_id))
        ]

    @staticmethod
    def _is_of_another(line: TraceLine, group_id: str) -> bool:
        named = re.search(r"\bgroup-\d+", f"{line.actor} {line.text}")
        return named is not None and named.group() != group_id

    def _format(self, lines: Iterable[TraceLine]) -> Iterable[str]:
        start_us = self._clock.start_ms * 1000
        for line in lines:
            yield f"{(line.time_us - start_us) / 1_000_000:11.3f}  {line.actor:<14} {line.text}"
