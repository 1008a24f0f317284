"""Filters for the log lines of kafka-python."""

import logging
import threading
import time
from collections.abc import Callable

from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: The loggers among `OUTAGE_LOGGERS` that also write lines about other problems than outages.
_REQUEST_LOGGERS = ("kafka.cluster", "kafka.consumer.fetcher")
#: The loggers of kafka-python that write a line for each attempt while brokers are unavailable.
OUTAGE_LOGGERS = (
    "kafka.net.transport",
    "kafka.net.connection",
    "kafka.net.manager",
    "kafka.producer.sender",
    *_REQUEST_LOGGERS,
)
#: The errors of requests that get no response during an outage.
_OUTAGE_ERRORS = frozenset({"KafkaConnectionError", "KafkaTimeoutError", "NodeNotReadyError", "RequestTimedOutError"})
#: An outage is over when `OUTAGE_LOGGERS` have logged no such error for this many seconds. kafka-python waits up to
#: 36 s between two attempts (reconnect_backoff_max_ms and its jitter).
QUIET_S = 40.0


def _call_later(pause_s: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(pause_s, call)
    timer.daemon = True
    timer.start()


class OneLinePerOutage(logging.Filter):
    """Reduces the log lines of an outage to one line at its start and one after its end, for `OUTAGE_LOGGERS`.

    The second line is only written if other lines were suppressed. kafka-python does not log that brokers are available
    again. So an outage is considered over when kafka-python has logged no line about it for `quiet_s` seconds. Lines
    below WARNING, with a stack trace, about logins, or about other errors are always written.
    """

    def __init__(
        self,
        quiet_s: float = QUIET_S,
        now: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _call_later,
    ) -> None:
        super().__init__()
        self._quiet_s, self._now, self._later = quiet_s, now, later
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._last_s = 0.0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written. Called by logging."""
        if record.exc_info or record.levelno < logging.WARNING or not _is_about_outage(record):
            return True
        with self._lock:
            self._last_s = self._now()
            if self._began_s is not None:
                self._left_out += 1
                return False
            self._began_s, self._left_out = self._last_s, 0
        self._later(self._quiet_s, self._check_end)
        return True

    def _check_end(self) -> None:
        with self._lock:
            rest_s = self._last_s + self._quiet_s - self._now()
            began_s, last_s, left_out = self._began_s, self._last_s, self._left_out
            if rest_s <= 0:
                self._began_s = None
        if rest_s > 0:
            self._later(rest_s, self._check_end)
        elif left_out and began_s is not None:
            logger.warning(
                "the outage of the Kafka clients is over after %(duration_s).1f s: no error was logged in the last"
                " %(limit)g s; %(count)d lines were suppressed during the outage",
                LogFields(limit=self._quiet_s, duration_s=last_s - began_s, count=left_out),
            )


def _is_about_outage(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.name not in _REQUEST_LOGGERS:
        return "sasl" not in text.lower()
    return "No node available" in text or any(type(value).__name__ in _OUTAGE_ERRORS for value in record.args or ())


#: One filter for all clients of the process.
_OUTAGES = OneLinePerOutage()


class OneLineNetworkErrors(logging.Filter):
    """Removes stack traces from lines about broken connections, for the loggers of kafka-python's connections.

    kafka-python logs a stack trace when a stopping broker resets a connection. It also logs one when a socket is closed
    while kafka-python waits for it, because a closed socket has no file descriptor. An AttributeError of a connection
    that this process itself is closing is not logged at all.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the stack trace of a network error by the error's text. Return whether the record is written.

        Called by logging.
        """
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, AttributeError) and isinstance(record.args, tuple) and _is_closed(*record.args[:1]):
            return False
        if isinstance(error, OSError) or (isinstance(error, ValueError) and "file descriptor" in str(error)):
            text = record.getMessage()
            record.msg, record.args = (text if str(error) in text else f"{text}: {error}"), ()
            record.exc_info, record.exc_text = None, None
        return True


class NoCancelledRefreshes(logging.Filter):
    """Drops the error of a metadata refresh that was cancelled because this process has closed the client.

    A refresh is often still pending at that time, because the broker handles it only after the client's previous fetch.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written. Called by logging."""
        return not any(type(value).__name__ == "Cancelled" for value in record.args or ())


#: One instance of each filter, because `addFilter` ignores an instance that is already present.
_ONE_LINE, _NO_CANCELLED = OneLineNetworkErrors(), NoCancelledRefreshes()


def _is_closed(transport: object = None) -> bool:
    """Return whether a transport of kafka-python is closing. Does not import kafka-python, to keep commands fast."""
    is_closing = getattr(transport, "is_closing", None)
    return callable(is_closing) and bool(is_closing())


def set_up_kafka_client_log(level: int) -> None:
    """Log kafka-python's lines of `level` and above, and add this module's filters.

    Call this once per process, together with `logging.basicConfig`.
    """
    logging.getLogger("kafka").setLevel(level)
    for name in ("kafka.net.transport", "kafka.net.selector"):
        logging.getLogger(name).addFilter(_ONE_LINE)
    logging.getLogger("kafka.cluster").addFilter(_NO_CANCELLED)
    for name in OUTAGE_LOGGERS:
        logging.getLogger(name).addFilter(_OUTAGES)
