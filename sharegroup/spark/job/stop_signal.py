"""Handles SIGTERM and Ctrl-C, with and without spark-submit.

Under spark-submit, the JVM receives SIGTERM, because the spark-submit process is the JVM and Python is its child. A
signal handler in the JVM therefore calls back into Python, which only sets a flag. Without spark-submit, Python
receives the signal.
"""

import signal
import threading
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


class StopSignal:
    """Receives SIGTERM and SIGINT, and stores whether the queries must stop.

    The main thread calls `wait` repeatedly, until it returns True because the JVM or Python has received a signal. The
    main thread then switches off Spark's log and calls `request`. Batches that begin after `request` raise
    StopRequested.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._event = threading.Event()
        self._requested = False
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)
        jvm = gateway.jvm
        self._handler = _JvmHandler(self._event)  # a reference is required: the JVM calls it
        for name in ("TERM", "INT"):
            jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), self._handler)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, frame: self._event.set())

    @property
    def requested(self) -> bool:
        """Whether the queries must stop. If so, a batch that begins now must raise StopRequested."""
        return self._requested

    def request(self) -> None:
        """Request the stop of all batches that begin from now on."""
        self._requested = True

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)


class _JvmHandler:
    """Java's interface `sun.misc.SignalHandler`, implemented in Python."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def handle(self, received: JavaObject) -> None:
        """Record the signal; called by the JVM."""
        self._event.set()

    class Java:
        """Names, for Py4J, the Java interface that the outer class implements."""

        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012 - py4j reads a class attribute
