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
    """A flag that SIGTERM and SIGINT set, whichever of the two processes it was sent to."""

    def __init__(self, spark: SparkSession) -> None:
        self._event = threading.Event()
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
        """Whether SIGTERM came."""
        return self._event.is_set()

    def request(self) -> None:
        """Set the flag, as SIGTERM would."""
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the flag; whether it is set."""
        return self._event.wait(timeout_s)


class _JvmHandler:
    """sun.misc.SignalHandler."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def handle(self, received: JavaObject) -> None:
        """Called by the JVM."""
        self._event.set()

    class Java:
        """py4j's way to say which interface this is."""

        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012 - py4j reads a class attribute
