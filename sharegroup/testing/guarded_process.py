"""A child process that does not outlive the process that started it, even if that parent process is killed.

A watchdog process reads from a pipe, and only the parent holds the other end. The pipe closes when the parent dies,
even by SIGKILL. The watchdog then stops the child and removes its files. (PR_SET_PDEATHSIG would be simpler, but it
exists only on Linux, and it also acts when only the *thread* that started the child ends.)
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

STOP_DEADLINE_S = 30.0

# $1 is the child's process id, $2 a directory to remove. `read` returns when the pipe closes.
_WATCHDOG = """
read -r _
kill -TERM "$1" 2>/dev/null || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" 2>/dev/null || break
    sleep 1
done
kill -KILL "$1" 2>/dev/null
rm -rf "$2"
"""


class GuardedProcess:
    """A child process with a watchdog. The constructor starts both. The child's output is appended to `log_path`.

    If the process that created this object dies, the watchdog stops the child and removes the directory `home`.
    """

    def __init__(self, command: Sequence[str], log_path: Path, home: Path) -> None:
        # Separate sessions, so that Ctrl-C at the terminal reaches only this process.
        with log_path.open("ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "watchdog", str(self._child.pid), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def poll(self) -> int | None:
        """Return the child's exit code; None while the child runs."""
        return self._child.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the child ends and return its exit code. Raises subprocess.TimeoutExpired after `timeout_s`."""
        return self._child.wait(timeout_s)

    def end(self) -> None:
        """End the child with SIGTERM and wait for its end. If it still runs after `STOP_DEADLINE_S`, send SIGKILL."""
        self._child.terminate()
        try:
            self._child.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._watchdog.kill()  # after the child, which it guards until then
        self._watchdog.communicate()
