"""Exceptions that a handler may raise, and the options of a handler, such as its retries after an exception."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sharegroup.errors import ShareGroupError
from sharegroup.log_fields import LogFields
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from sharegroup.client.records import Record

logger = logging.getLogger(__name__)


class Reject(ShareGroupError):
    """Exception that a handler raises to reject the record. The record is never delivered again.

    The reason is logged.
    """


class Release(ShareGroupError):
    """Exception that a handler raises to release the record, so that it can be delivered again to any member.

    The consumer keeps the record locked for `delay_s` seconds before it releases the record.
    """

    def __init__(self, reason: str = "", *, delay_s: float = 0.0) -> None:
        super().__init__(reason)
        self.delay_ms = round(delay_s * 1000)


def acknowledge_type_of(error: BaseException | None) -> AcknowledgeType:
    """Return how a record is acknowledged after its last handler call. `error` is None if the call succeeded."""
    if error is None:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.REJECT if isinstance(error, Reject) else AcknowledgeType.RELEASE


def log_failure(record: Record[Any], error: BaseException) -> None:
    """Log why a record was not processed. A `Release` is not logged."""
    name = f"{record.topic}-{record.partition} offset {record.offset}, delivery {record.delivery_count}"
    if isinstance(error, Reject):
        logger.warning("the record %(resource)s was rejected: %(error)s", LogFields(resource=name, error=error))
    elif not isinstance(error, Release):
        logger.error("the handler failed to process the record %(resource)s", LogFields(resource=name), exc_info=error)


@dataclass(frozen=True)
class Retry:
    """How often, and after which delays, a handler is called again for a record after an exception.

    Between the calls, the record stays locked by this consumer. If the last call fails too, the record is released. It
    can then be delivered to other members, up to the group's delivery count limit.

    Attributes:
        initial_s: the delay after the first failed call, in seconds. Each further delay is twice the previous one.
        max_s: the maximum delay, in seconds.
        max_attempts: the maximum number of calls for one delivery of a record, including the first call.
    """

    initial_s: float = 1.0
    max_s: float = 60.0
    max_attempts: int = 5

    @classmethod
    def exponential(cls, initial_s: float, max_s: float, max_attempts: int = 5) -> Retry:
        """Return a policy whose delays double from `initial_s` to `max_s`. The first call counts as an attempt."""
        return cls(initial_s, max_s, max_attempts)

    @classmethod
    def never(cls) -> Retry:
        """Return a policy that releases the record after the first exception."""
        return cls(max_attempts=1)

    def delay_ms(self, attempts: int) -> int | None:
        """Return the delay after `attempts` failed calls; None if the handler is not called again."""
        if attempts >= self.max_attempts:
            return None
        return round(1000 * min(self.max_s, self.initial_s * 2.0 ** min(attempts - 1, 60)))


@dataclass(frozen=True)
class HandlerOptions:
    """The options of a handler.

    Attributes:
        concurrency: the maximum number of concurrent calls.
        batch_records: the maximum number of records per call; 1 for a handler of single records.
        max_wait_ms: the maximum delay of a call while fewer than `batch_records` records are available.
        max_records: the maximum number of records that the consumer holds, including those in calls.
        max_bytes: the maximum total size of the keys and values of these records.
        max_processing_ms: how long a record's lock is renewed, counted from the start of its first call. After that,
            the lock expires and the record can be delivered to other members.
        retry: how often a record is retried after an exception.
    """

    concurrency: int = 1
    batch_records: int = 1
    max_wait_ms: int = 0
    max_records: int = 500
    max_bytes: int = 64_000_000
    max_processing_ms: int = 600_000
    retry: Retry = dataclasses.field(default_factory=Retry.never)

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch_records", "max_records", "max_bytes", "max_processing_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def parse_bytes(size: int | str) -> int:
    """Return a number of bytes, which may be written as "64MB" (1 MB is 10**6 bytes). Raises ValueError if invalid."""
    if isinstance(size, int):
        return size
    text = size.strip().upper()
    number = text.rstrip("KMGB ")
    unit = text[len(number) :].strip()
    if unit not in _UNITS or not number.isdigit():
        raise ValueError(f"{size!r} is not a number of bytes, such as 1000000 or '64MB'")
    return int(number) * _UNITS[unit]
