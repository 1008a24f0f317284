"""SIGTERM and Ctrl-C, under spark-submit and without it.

Under spark-submit SIGTERM reaches the JVM (spark-submit's process is the JVM, Python its child), so a JVM signal
handler calls back into Python and only sets a flag. Without it, Python gets the signal.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


class StopSignal:
    """The signal to stop, and the stop itself.

    The main thread waits for SIGTERM or SIGINT, whichever of the two processes it was sent to, and prepares the stop
    (it silences Spark's log). Only then does it request the stop, and batches that begin later refuse to run.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._event = threading.Event()
        self._requested = False
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)
        jvm = gateway.jvm
        self._handler = _JvmHandler(self._event)  # kept: the JVM refers to it
        for name in ("TERM", "INT"):
            jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), self._handler)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, frame: self._event.set())

    @property
    def requested(self) -> bool:
        """Whether batches that begin now must stop."""
        return self._requested

    def request(self) -> None:
        """Make batches stop that begin from now on."""
        self._requested = True

    def wait(self, timeout_s: float) -> bool:
        """Wait for the signal; return whether it was received."""
        return self._event.wait(timeout_s)


class _JvmHandler:
    """Java's interface `sun.misc.SignalHandler`, filled from Python."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def handle(self, received: JavaObject) -> None:
        """The signal has come: the JVM calls this."""
        self._event.set()

    class Java:
        """py4j's way to say which interface this is."""

        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012 - py4j reads a class attribute
