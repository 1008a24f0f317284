"""The page of a job as its own process, and browsers that have it open: each renews what it shows, as ui.js does."""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from urllib.parse import urlencode

from sharegroup.testing.logged_process import LoggedProcess
from tests.benchmarks.process_tree import ProcessTree

_START_S = 60
_RENEW_S = 5.0
_SAID = "ui: http"


class OpenPages:
    """`count` pages, open inside the `with` block: the groups, a group, and a share-partition's window in turn."""

    def __init__(self, config: Path, group_id: str, topic: str, count: int) -> None:
        command = [sys.executable, "-m", "sharegroup.cli", "ui", "--config", str(config), "--port", "0"]
        self._server = LoggedProcess("the page", command, config.with_name("ui.log"))
        group = {"group": group_id}
        self._paths = [
            "",
            f"group?{urlencode(group)}",
            f"window?{urlencode(group | {'topic': topic, 'partition': '0'})}",
        ]
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(count)]
        self.renewed = 0

    def __enter__(self) -> OpenPages:
        self._server.start()
        try:
            self._address = self._server.await_log(_SAID, _START_S).partition(": ")[2].strip()
        except BaseException:
            self._server.kill()
            raise
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.kill()
        for thread in self._threads:
            thread.join()

    @property
    def processes(self) -> ProcessTree:
        """Those of the page."""
        return ProcessTree(self._server.pid)

    def _run(self, number: int) -> None:
        url = self._address + self._paths[number % len(self._paths)]
        while not self._ended.wait(_RENEW_S):
            try:
                with urllib.request.urlopen(url, timeout=_START_S) as answer:
                    answer.read()
            except (OSError, urllib.error.URLError):  # not there yet, or held still
                continue
            self.renewed += 1
