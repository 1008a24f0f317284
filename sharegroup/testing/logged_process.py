"""A child process whose log is a file, with methods that wait for texts in the log."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil

_POLL_S = 0.1
_TAIL_LINES = 40


class LoggedProcessError(RuntimeError):
    """The process ended unexpectedly, did not end in time, or did not log an expected text in time.

    The message contains the last lines of the log.
    """


class LoggedProcess:
    """A child process that writes its output to the file `log_path`.

    `what` is its name in messages, as in "the gateway ended with exit code 1". The child has the environment of this
    process and the variables in `environment`. Methods raise `error`: LoggedProcessError, or a subclass's own error.
    """

    error: ClassVar[type[LoggedProcessError]] = LoggedProcessError

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        log_path: Path,
        *,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
    ) -> None:
        self._what = what
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._working_directory = working_directory
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process without waiting until it is ready. Use `await_log` to wait."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._working_directory,
            )
        return self

    def _start_until(self, text: str) -> str:
        """Start the process, and return the first line with `text` that it logs.

        If no such line appears in time, kill the process and raise `error`.
        """
        since = self.log_path.stat().st_size if self.log_path.exists() else 0
        LoggedProcess.start(self)
        try:
            return self.await_log(text, since=since)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None before the process was started and while it runs."""
        return None if self._process is None else self._process.poll()

    def await_log(self, text: str, timeout_s: float = 240, since: int = 0) -> str:
        """Wait for a line with `text` after the log's first `since` bytes, and return the line.

        Raises `self.error` if the process ends without such a line, or if there is none after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ended = self.exit_code
            line = self._line_with(text, since)
            if line is not None:
                return line
            if ended is not None:
                raise self.error(f"the {self._what} ended with exit code {ended}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise self.error(f"found no {text!r} in the {self._what}'s log in {timeout_s} s:\n{self.log_tail()}")
            time.sleep(_POLL_S)  # polls a file of another process

    def has_logged(self, text: str, since: int = 0) -> bool:
        """Return whether the log has `text` after its first `since` bytes.

        Raises `self.error` if the process has ended without writing the text.
        """
        is_alive = self.exit_code is None
        if self._line_with(text, since) is not None:
            return True
        if not is_alive:
            self.check_alive()
        return False

    def check_alive(self) -> None:
        """Raise `error` if the process has ended."""
        if self.exit_code is not None:
            raise self.error(f"the {self._what} ended with exit code {self.exit_code}:\n{self.log_tail()}")

    def wait(self, timeout_s: float = 240) -> int:
        """Wait until the process ends and return the exit code.

        Raises `self.error` if the process still runs after `timeout_s`.
        """
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.error(f"the {self._what} still runs after {timeout_s} s:\n{self.log_tail()}") from None

    def terminate(self, timeout_s: float = 240) -> int:
        """Send SIGTERM, as a supervisor would, wait until the process ends, and return the exit code.

        Raises `self.error` if the process still runs after `timeout_s`.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL to the process and all its descendants, so that none of them can clean up."""
        assert self._process is not None
        below: list[psutil.Process] = []
        if self._process.poll() is None:
            below = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end with its parent
                process.kill()
        self._process.wait(30)
        psutil.wait_procs(below, timeout=30)

    def log_tail(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def _line_with(self, text: str, since: int) -> str | None:
        """Return the first complete line with `text` after the log's first `since` bytes; None if there is none."""
        log = self.log_path.read_bytes()[since:].decode(errors="replace")
        return next((line for line in log.splitlines(keepends=True) if text in line and line.endswith("\n")), None)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
