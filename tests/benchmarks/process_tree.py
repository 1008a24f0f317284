"""A job's process tree: its CPU time, its memory, and holding it still while the other side is measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class Memory(NamedTuple):
    """Resident memory in MB; what forked processes share counts once (PSS), where the system tells it."""

    jvm_mb: float
    driver_python_mb: float
    python_workers_mb: float


class ProcessTree:
    """The processes below and including `pid`, which is the JVM of a spark-submit."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def cpu_percent(self, seconds: float) -> float:
        """CPU use of the whole tree over the next `seconds`, in % of one core.

        Of the processes that live at the end: one that goes away would take the CPU time of its past with it.
        """
        before, begin = self._cpu_by_process(), time.monotonic()
        time.sleep(seconds)  # the measured interval itself
        used = sum(cpu - before.get(process, 0.0) for process, cpu in self._cpu_by_process().items())
        return 100 * used / (time.monotonic() - begin)

    def memory(self) -> Memory:
        """Memory now: the JVM (driver and executor at once, in local mode), the driver's Python, its workers."""
        driver = _first_python(self._root)
        driver_mb = _megabytes(driver) if driver else 0.0
        rest = {process.pid: process for process in self._processes()}
        rest.pop(self._root.pid)
        if driver:
            rest.pop(driver.pid, None)
        return Memory(_megabytes(self._root), driver_mb, sum(map(_megabytes, rest.values())))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The tree stands still (SIGSTOP) inside the block."""
        self.hold()
        try:
            yield
        finally:
            self.go_on()

    def hold(self) -> None:
        """Stop all processes where they are."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def go_on(self) -> None:
        """Let them go on."""
        for process in reversed(self._processes()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def _cpu_by_process(self) -> dict[psutil.Process, float]:
        found = {}
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                found[process] = times.user + times.system
        return found

    def cpu_seconds(self) -> float:
        """CPU time of the processes that live now, and of those that they had and that ended."""
        total = 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total


def _first_python(root: psutil.Process) -> psutil.Process | None:
    """The driver's Python program is the JVM's oldest child that lives and is a Python."""
    for process in sorted(root.children(), key=lambda child: child.create_time()):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and "python" in process.name():
                return process
    return None


def _megabytes(process: psutil.Process) -> float:
    try:
        info = process.memory_full_info()
        return float(getattr(info, "pss", info.rss)) / 1e6
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0
