"""The log of a Spark job of this project: lines for people, and never so many that a disk fills.

Python's lines are set up here; those of Spark's JVM by `log4j2.properties` beside this module, which the command line
names (conf/log4j2.properties is the same file).
"""

from __future__ import annotations

import logging
import os
import sys
from types import TracebackType

from sharegroup.errors import StopRequested
from sharegroup.kafka_clients.kafka_client_log import set_up_kafka_client_log
from sharegroup.kafka_clients.line_limit import LINES, LineLimit

#: At most ten lines of a kind in so long. Members that come and go all day, in every way, fill less than 10 MB.
WINDOW_S = 90.0
#: The environment variable for another number than ten.
LINES_VARIABLE = "SHAREGROUP_LOG_LINES"


class _NoStops(logging.Filter):
    """For a log handler: py4j tells at length of what ends a batch, be it a stop that was asked for."""

    def filter(self, record: logging.LogRecord) -> bool:
        """logging's: whether the record is written."""
        return not (record.exc_info and isinstance(record.exc_info[1], StopRequested))


def end_quietly_with_the_jvm() -> None:
    """Print no stack trace when Spark's JVM closes the connection to this process at its end."""
    print_error = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, EOFError | BrokenPipeError | ConnectionResetError):
            print_error(kind, error, trace)

    sys.excepthook = hook


def set_up_log(level: int = logging.INFO, of_kafka_clients: int = logging.WARNING) -> None:
    """Once in a process: lines of this project from `level` on, those of kafka-python from `of_kafka_clients` on."""
    lines = logging.StreamHandler()
    lines.addFilter(_NoStops())
    lines.addFilter(LineLimit(WINDOW_S, lines=int(os.environ.get(LINES_VARIABLE, LINES))))
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[lines])
    set_up_kafka_client_log(of_kafka_clients)
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)  # it warns of each busy third of a second
    logging.getLogger("py4j").setLevel(logging.WARNING)
