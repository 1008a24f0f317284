"""A real Prometheus, where one is to be had: on the PATH, or unpacked from Debian's package."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import free_port

PROGRAMS = ("prometheus", "promtool")


def programs(directory: Path) -> dict[str, str] | None:
    """{name: path} of the two programs, None where there are none. The package is unpacked into `directory`, not
    installed: that needs no rights, and starts no service."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    if not all(found.values()) and shutil.which("apt-get") and shutil.which("dpkg"):
        for package in directory.glob("prometheus_*.deb") if _is_downloaded(directory) else ():
            subprocess.run(
                ["dpkg", "-x", package.name, "."], cwd=directory, capture_output=True, timeout=120, check=True
            )
            found = {name: str(directory / "usr" / "bin" / name) for name in PROGRAMS}
    return {name: path for name, path in found.items() if path} if all(found.values()) else None


def _is_downloaded(directory: Path) -> bool:
    command = ["apt-get", "download", "prometheus"]
    try:
        return subprocess.run(command, cwd=directory, capture_output=True, timeout=120, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class Prometheus(LoggedProcess):
    """Runs by a configuration file; `query` evaluates an expression now."""

    def __init__(self, program: str, config_path: Path, directory: Path) -> None:
        self._port = free_port()
        options = [
            f"--config.file={config_path}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        super().__init__("Prometheus", [program, *options], directory / "prometheus.log")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of the result. Raises AssertionError with what Prometheus says of a wrong expression."""
        return list(self._get("query", query=expression)["result"])

    def rules(self) -> dict[str, str]:
        """{alert: health}"""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def _get(self, what: str, **parameters: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return dict(json.load(answer)["data"])
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
