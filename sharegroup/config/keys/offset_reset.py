"""share.auto.offset.reset: the initial start offset of a share-partition (KIP-932)."""

import re
from enum import Enum
from typing import NamedTuple, Self

_TIME = r"T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{1,9}))?S)?"
_DURATION = re.compile(rf"P(?:(?P<days>\d+)D)?(?:{_TIME})?", re.IGNORECASE | re.ASCII)
_BY_DURATION_PREFIX = "by_duration:"
ALLOWED = "earliest | latest | by_duration:<ISO-8601 duration>"


class OffsetResetStrategy(str, Enum):
    """The strategies that choose an initial start offset (KIP-932, KIP-1106)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


class AutoOffsetReset(NamedTuple):
    """The parsed value of share.auto.offset.reset.

    `duration_ms` is set only for BY_DURATION. With this strategy, reading starts with the first record that is at most
    `duration_ms` old.
    """

    strategy: OffsetResetStrategy
    duration_ms: int | None = None

    def __str__(self) -> str:
        """Return the value in Kafka's format, which `parse` reads."""
        if self.duration_ms is None:
            return self.strategy.value
        seconds, milliseconds = divmod(self.duration_ms, 1000)
        fraction = f".{milliseconds:03d}" if milliseconds else ""
        return f"{_BY_DURATION_PREFIX}PT{seconds}{fraction}S"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a config value. If it is invalid, raise ValueError with a sentence about the problem."""
        if text.lower().startswith(_BY_DURATION_PREFIX):
            return cls(OffsetResetStrategy.BY_DURATION, duration_to_ms(text[len(_BY_DURATION_PREFIX) :]))
        for strategy in (OffsetResetStrategy.EARLIEST, OffsetResetStrategy.LATEST):
            if text.lower() == strategy.value:
                return cls(strategy)
        raise ValueError(f"Value must be {ALLOWED}")


def duration_to_ms(text: str) -> int:
    """Return an ISO-8601 duration of days, hours, minutes and seconds (`P1DT2H30M5.5S`) in milliseconds.

    Raise ValueError for any other text. Years and months are not allowed, because they have no fixed length.
    """
    if "-" in text:
        raise ValueError(f"Duration {text} must not be negative")
    match = _DURATION.fullmatch(text)
    if match is None or text.upper() == "P" or text.upper().endswith("T"):
        raise ValueError(f"'{text}' is not an ISO-8601 duration of days, hours, minutes and seconds, such as PT1H30M")
    days, hours, minutes, seconds = (int(match[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    milliseconds = int((match["fraction"] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
