"""What kafka-python writes to a process's log."""

from __future__ import annotations

import logging


class OneLineNetworkErrors(logging.Filter):
    """For the loggers of kafka-python's connections: one that breaks is a line, not a stack trace.

    A broker that is stopped resets connections or closes them, as it happens, and a socket that is closed meanwhile has
    no descriptor to wait for any more; only these are logged with a trace. Where this process has closed a connection
    on purpose just as there was something to read, there is no socket at all, and nothing to tell.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """logging's: whether the record is written."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, AttributeError) and isinstance(record.args, tuple) and _is_closed(*record.args[:1]):
            return False
        if isinstance(error, OSError) or (isinstance(error, ValueError) and "file descriptor" in str(error)):
            text = record.getMessage()
            record.msg, record.args = (text if str(error) in text else f"{text}: {error}"), ()
            record.exc_info, record.exc_text = None, None
        return True


def _is_closed(transport: object = None) -> bool:
    """Of kafka-python's transport, without loading kafka-python for a command that needs none."""
    is_closing = getattr(transport, "is_closing", None)
    return callable(is_closing) and bool(is_closing())


def set_up_kafka_client_log(level: int) -> None:
    """Once in a process, beside `logging.basicConfig`: kafka-python's lines from `level` on."""
    logging.getLogger("kafka").setLevel(level)
    for name in ("kafka.net.transport", "kafka.net.selector"):
        logger = logging.getLogger(name)
        if not any(isinstance(present, OneLineNetworkErrors) for present in logger.filters):
            logger.addFilter(OneLineNetworkErrors())
