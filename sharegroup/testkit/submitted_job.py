"""A job of this project as people start it: `spark-submit` as a child process, with its log in a file.

    with SubmittedJob("jobs/run_share_group.py", ["--config", path], log_path) as job:
        job.await_log("the share-group job is running")

It ends as the process ends: `terminate` sends SIGTERM and returns the exit code, `kill` is SIGKILL for the JVM and its
Python children at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil
import pyspark

from sharegroup.testkit.jars import jars

ROOT = Path(__file__).resolve().parents[2]
_LOG4J2_PROPERTIES = ROOT / "conf" / "log4j2.properties"
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
#: JVM options for a job that lives for a minute: no second compiler, which would only take the cores from the start.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_POLL_S = 0.1
_TAIL_LINES = 40


class SubmittedJobError(RuntimeError):
    """The job ended, or did not come up in time; the message has the end of its log."""


class SubmittedJob:
    """See the module. `script` is relative to the checkout; `conf` goes to spark-submit as `--conf`."""

    def __init__(
        self,
        script: str,
        arguments: Sequence[str],
        log_path: Path,
        *,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        driver_memory: str = "1g",
        jvm_options: str = "",
    ) -> None:
        settings = {
            "spark.ui.enabled": "false",
            "spark.jars": ",".join(str(path) for path in jars("spark")),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J2_PROPERTIES} {jvm_options}",
            **(conf or {}),
        }
        self._command = [str(_SUBMIT), "--master", master, "--driver-memory", driver_memory]
        for key, value in settings.items():
            self._command += ["--conf", f"{key}={value}"]
        self._command += [str(ROOT / script), *arguments]
        self._environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **(environment or {}),
        }
        self._working_directory = working_directory
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> SubmittedJob:
        """Start the process; `await_log` tells when it is ready."""
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

    @property
    def pid(self) -> int:
        """The JVM's process id (spark-submit's shell becomes the JVM)."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while it runs."""
        return None if self._process is None else self._process.poll()

    def await_log(self, text: str, timeout_s: float = 120, since: int = 0) -> None:
        """Wait until the log holds `text` after its first `since` bytes. SubmittedJobError when the job ends first."""
        deadline = time.monotonic() + timeout_s
        while text.encode() not in self.log_path.read_bytes()[since:]:
            if self.exit_code is not None:
                raise SubmittedJobError(f"the job ended with {self.exit_code}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise SubmittedJobError(f"no {text!r} in the log after {timeout_s} s:\n{self.log_tail()}")
            time.sleep(_POLL_S)  # polls a file of another process

    def wait(self, timeout_s: float = 120) -> int:
        """Wait for the end; the exit code. SubmittedJobError when it goes on."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise SubmittedJobError(f"the job goes on after {timeout_s} s:\n{self.log_tail()}") from None

    def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM, as a supervisor would; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL for the JVM and everything below it: a machine that lost its power."""
        assert self._process is not None
        if self._process.poll() is None:
            parent = psutil.Process(self._process.pid)
            family = [parent, *parent.children(recursive=True)]
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end with its parent
                    process.kill()
            psutil.wait_procs(family, timeout=30)
        self._process.wait(30)

    def log_tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def __enter__(self) -> SubmittedJob:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
