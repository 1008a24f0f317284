"""The job's side of `upkeep_worker`: starts the process, sends requests, and receives the results."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from sharegroup.config import Config
from sharegroup.log_fields import LogFields
from sharegroup.storage.schemas import TableSpec

logger = logging.getLogger(__name__)

_PACKAGE_ROOT = Path(__file__).resolve().parents[3]
_END_S = 3.0


def upkeep_settings(config: Config) -> dict[str, Any]:
    """Return the settings that the upkeep process needs from the job's configuration, as a dict for JSON."""
    job = config.job
    return {
        "tables_path": job.tables_path,
        "storage_options": job.delta_options,
        "retention_ms": job.tables_retention_ms,
        "local_versions": job.tables_local_versions,
        "local_sync": job.tables_local_sync,
        "log_retention_ms": job.delivery_log_retention_ms,
    }


class UpkeepProcess:
    """Requests upkeep from a child process, without waiting for the result.

    While a request for some tables is pending, further requests for the same tables are skipped. A later request also
    does the work of the skipped requests. If the process has ended, the next request starts another process.
    """

    def __init__(
        self, process_settings: dict[str, Any], ended: Callable[[float, bool], None] = lambda seconds, failed: None
    ) -> None:
        """Store the settings. `process_settings` comes from `upkeep_settings`. The first request starts the process.

        `ended` is called after each upkeep, with its duration in seconds and whether it failed.
        """
        self._settings, self._ended = process_settings, ended
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._requested: list[tuple[str, ...]] = []

    def request(self, specs: Sequence[TableSpec], leader_epoch: int, now_ms: int) -> None:
        """Request the upkeep of these tables for a leader, and return immediately. `now_ms` is the brokers' time."""
        names = tuple(spec.name for spec in specs)
        with self._lock:
            process = self._running()
            if names in self._requested:
                return
            self._requested.append(names)
            try:
                _send(process, {"specs": names, "leader_epoch": leader_epoch, "now_ms": now_ms})
            except OSError as error:
                logger.warning(
                    "could not send the request for the upkeep of %(table)s to the upkeep process: %(error)s",
                    LogFields(table=names[0], error=error),
                )

    def close(self) -> None:
        """End the process after its pending requests. If this takes three seconds, kill it, which is always safe."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> subprocess.Popen[str]:
        """Return the process; start one if there is none or it has ended. The lock must be held."""
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                logger.warning(
                    "upkeep process ended with exit code %(count)d; starting another",
                    LogFields(count=self._process.returncode),
                )
                assert self._process.stdin is not None
                with contextlib.suppress(OSError):  # requests that were not sent yet
                    self._process.stdin.close()
            self._requested = []
            path = os.pathsep.join(filter(None, [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH")]))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sharegroup.storage.upkeep.upkeep_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            _send(self._process, self._settings)
            threading.Thread(target=self._listen, args=(self._process,), daemon=True, name="upkeep").start()
        return self._process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Handle the responses, which arrive in the order of the requests, until the process ends."""
        assert process.stdout is not None
        with process.stdout as responses:
            for line in responses:
                self._handle_response(process, json.loads(line))

    def _handle_response(self, process: subprocess.Popen[str], response: dict[str, Any]) -> None:
        with self._lock:
            names = self._requested.pop(0) if process is self._process and self._requested else ("the tables",)
        self._ended(response["took_ms"] / 1000, response["problem"] is not None)
        if response["problem"] is None:
            logger.debug(
                "upkeep of %(table)s took %(duration_ms)d ms",
                LogFields(table=", ".join(names), duration_ms=response["took_ms"]),
            )
        else:
            logger.warning(
                "upkeep of %(table)s failed; the next one will retry: %(error)s",
                LogFields(table=", ".join(names), error=response["problem"]),
            )


def _send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    pipe: IO[str] | None = process.stdin
    assert pipe is not None
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()
