"""A wall clock that a test sets, for the processes that it starts: JVM, Python and what they load.

    clock = ShiftedClock(directory)
    process = start(environment=clock.environment)
    clock.set(3_600)      # an hour ahead from now on, for this process and its children alone

A small library that is loaded in front of the C library adds a number of milliseconds to the time of day. It reads the
number from a file that it has mapped into memory, so that a change counts at once. Clocks that nobody sets are left
alone. It is built by the machine's C compiler.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("SHAREGROUP_CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) shift = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ms = *shift;
        now->tv_sec += ms / 1000;
        now->tv_nsec += (ms % 1000) * 1000000;
        if (now->tv_nsec < 0) { now->tv_nsec += 1000000000; now->tv_sec -= 1; }
        if (now->tv_nsec >= 1000000000) { now->tv_nsec -= 1000000000; now->tv_sec += 1; }
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
"""


def find_compiler() -> str | None:
    """Return the machine's C compiler, None where it has none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class ShiftedClock:
    """A clock of its own; its files are in `directory`. It is right until it is set."""

    def __init__(self, directory: Path) -> None:
        compiler = find_compiler()
        assert compiler is not None, "there is no C compiler"
        source, library = directory / "shifted_clock.c", directory / "shifted_clock.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
        self._path = directory / "clock_shift"
        self._path.write_bytes(struct.pack("=q", 0))
        self.environment = {"LD_PRELOAD": str(library), "SHAREGROUP_CLOCK_SHIFT": str(self._path)}

    def set(self, ahead_s: float) -> None:
        """Let the clock be ahead of the machine's by so much; behind it, where that is negative."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", round(1000 * ahead_s)))
