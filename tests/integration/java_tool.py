"""Kafka's command-line tools, by their class: what its shell scripts run, without the shell and within a time.

run_tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", servers, "--topic", "orders")
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sharegroup.spark.jars import QUICK_START, jars, java

_LOG4J2_PROPERTIES = Path(__file__).resolve().parents[2] / "conf" / "log4j2.properties"
_HEAP = "-Xmx256m"


class JavaToolError(RuntimeError):
    """A tool ended with another exit code than 0, or did not end in time; the message has what it said."""


def run_tool(main_class: str, *arguments: str, timeout_s: float = 120, java_options: Sequence[str] = ()) -> str:
    """Run a tool of the `tools` JARs to its end; its standard output. Raises JavaToolError and JarsError."""
    try:
        done = subprocess.run(
            tool_command(main_class, arguments, java_options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaToolError(f"{main_class} goes on after {timeout_s} s:\n{_text(error.output, error.stderr)}") from None
    if done.returncode != 0:
        raise JavaToolError(f"{main_class} ended with {done.returncode}:\n{_text(done.stdout, done.stderr)}")
    return done.stdout


def tool_command(main_class: str, arguments: Sequence[str], java_options: Sequence[str] = ()) -> list[str]:
    """The command line of a tool. Raises JarsError."""
    class_path = os.pathsep.join(str(jar) for jar in jars("tools"))
    logging = f"-Dlog4j2.configurationFile={_LOG4J2_PROPERTIES}"
    return [java(), *QUICK_START, _HEAP, logging, *java_options, "-cp", class_path, main_class, *arguments]


def _text(*streams: str | bytes | None) -> str:
    """What was said; a process that was stopped has said bytes."""
    return "\n".join(s.decode(errors="replace") if isinstance(s, bytes) else s for s in streams if s)
