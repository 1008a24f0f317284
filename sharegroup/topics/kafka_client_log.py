"""What kafka-python writes to a process's log."""

from __future__ import annotations

import logging


class OneLineNetworkErrors(logging.Filter):
    """For the logger of kafka-python's transport: a connection that breaks is a line, not a stack trace.

    A broker that is stopped resets connections or closes them, as it happens; only the one is logged with a trace.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """logging's: whether the record is written."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError):
            text = record.getMessage()
            record.msg, record.args = (text if str(error) in text else f"{text}: {error}"), ()
            record.exc_info, record.exc_text = None, None
        return True


def set_up_kafka_client_log(level: int) -> None:
    """Once in a process, beside `logging.basicConfig`: kafka-python's lines from `level` on."""
    logging.getLogger("kafka").setLevel(level)
    transport = logging.getLogger("kafka.net.transport")
    if not any(isinstance(present, OneLineNetworkErrors) for present in transport.filters):
        transport.addFilter(OneLineNetworkErrors())
