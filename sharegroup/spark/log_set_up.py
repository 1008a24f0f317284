"""Logging of a Spark job of this project: readable lines, and files of limited size.

This module configures Python's log. The file `log4j2.properties` beside this module configures the log of Spark's JVM.
The `spark-submit` command line names that file; conf/log4j2.properties is a copy of it.
"""

import logging
import os
import sys
from types import TracebackType

from sharegroup.errors import StopRequested
from sharegroup.kafka_clients.kafka_client_log import set_up_kafka_client_log
from sharegroup.kafka_clients.line_limit import LINES, LineLimit
from sharegroup.log_fields import log_formatter

#: The window, in seconds, in which at most ten similar lines are logged. Even if members join and leave all the time,
#: less than 10 MB a day are logged.
WINDOW_S = 90.0
#: The environment variable with the maximum number of similar lines; ten if it is not set.
LINES_VARIABLE = "SHAREGROUP_LOG_LINES"


class _NoStops(logging.Filter):
    """Drops the log records of StopRequested, which py4j logs with a full stack trace when it ends a batch."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        return not (record.exc_info and isinstance(record.exc_info[1], StopRequested))


def end_quietly_with_the_jvm() -> None:
    """Make this process print no stack trace when Spark's JVM ends and closes the connection to it."""
    print_error = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, EOFError | BrokenPipeError | ConnectionResetError):
            print_error(kind, error, trace)

    sys.excepthook = hook


def set_up_log(level: int = logging.INFO, of_kafka_clients: int = logging.WARNING) -> None:
    """Configure the log of this process. Call it once.

    `level` is the minimum level of this project's lines, `of_kafka_clients` that of kafka-python's lines.
    """
    lines = logging.StreamHandler()
    lines.addFilter(_NoStops())
    lines.addFilter(LineLimit(WINDOW_S, lines=int(os.environ.get(LINES_VARIABLE, LINES))))
    lines.setFormatter(log_formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[lines])
    set_up_kafka_client_log(of_kafka_clients)
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)  # it warns of each busy third of a second
    logging.getLogger("py4j").setLevel(logging.WARNING)
