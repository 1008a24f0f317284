"""The checks before anything is installed: one sentence each, and no trace."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PREFLIGHT = Path(__file__).resolve().parents[2] / "scripts" / "preflight.sh"

# What a fake Python answers to the two questions it is asked: its version, and whether it can make environments.
OLD_PYTHON = "exit 1"
NEW_PYTHON = "exit 0"
PYTHON_WITHOUT_VENV = 'case "$2" in *venv*) exit 1 ;; esac'

JAVA_8 = """echo 'openjdk version "1.8.0_392"' >&2"""
JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
JAVA_25 = """echo 'java version "25" 2025-09-16 LTS' >&2"""
NO_JAVA_YET = "echo 'Unable to locate a Java Runtime.' >&2; exit 1"


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    """A PATH of its own, with the two tools that the script needs and neither a Python nor a Java."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in ("sed", "head"):
        found = shutil.which(tool)
        assert found is not None
        (directory / tool).symlink_to(found)
    return directory


def install(program: Path, body: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def preflight(bin_dir: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    sh = shutil.which("sh")
    assert sh is not None
    return subprocess.run(
        [sh, str(PREFLIGHT), *arguments],
        env={"PATH": str(bin_dir), **environment},
        capture_output=True,
        text=True,
        timeout=600,  # for a test that hangs
    )


def refusal(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"setup: [^\n]+\.\n", done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("java", [JAVA_17, JAVA_25])
def test_it_names_the_python_to_use(bin_dir: Path, java: str) -> None:
    install(bin_dir / "python3", NEW_PYTHON)
    install(bin_dir / "java", java)

    done = preflight(bin_dir)

    assert (done.returncode, done.stdout, done.stderr) == (0, "python3\n", "")


def test_an_old_python3_is_passed_over_for_a_newer_one(bin_dir: Path) -> None:
    install(bin_dir / "python3", OLD_PYTHON)
    install(bin_dir / "python3.11", NEW_PYTHON)
    install(bin_dir / "java", JAVA_17)

    assert preflight(bin_dir).stdout == "python3.11\n"


def test_no_python_that_is_new_enough(bin_dir: Path) -> None:
    install(bin_dir / "python3", OLD_PYTHON)
    install(bin_dir / "java", JAVA_17)

    assert "Python 3.11 or newer is needed, and there is none on the PATH" in refusal(preflight(bin_dir))


def test_a_python_that_was_asked_for_is_not_replaced(bin_dir: Path) -> None:
    install(bin_dir / "python3", NEW_PYTHON)
    install(bin_dir / "python3.6", OLD_PYTHON)
    install(bin_dir / "java", JAVA_17)

    assert "python3.6 is not one" in refusal(preflight(bin_dir, "python3.6"))


def test_a_python_without_venv(bin_dir: Path) -> None:
    install(bin_dir / "python3", PYTHON_WITHOUT_VENV)
    install(bin_dir / "java", JAVA_17)

    assert "apt install python3-venv" in refusal(preflight(bin_dir))


@pytest.mark.parametrize(
    ("java", "problem"), [(JAVA_8, "java is Java 8"), (NO_JAVA_YET, "java does not run"), (None, "java does not run")]
)
def test_no_java_that_is_new_enough(bin_dir: Path, java: str | None, problem: str) -> None:
    install(bin_dir / "python3", NEW_PYTHON)
    if java is not None:
        install(bin_dir / "java", java)

    assert f"Java 17 or newer is needed, and {problem}: install one" in refusal(preflight(bin_dir))


def test_java_home_is_respected(bin_dir: Path, tmp_path: Path) -> None:
    install(bin_dir / "python3", NEW_PYTHON)
    install(bin_dir / "java", JAVA_17)
    install(tmp_path / "jdk8" / "bin" / "java", JAVA_8)

    done = preflight(bin_dir, JAVA_HOME=str(tmp_path / "jdk8"))

    assert f"{tmp_path}/jdk8/bin/java is Java 8: set JAVA_HOME to a newer one" in refusal(done)


def test_the_script_can_be_run_as_it_is() -> None:
    assert os.access(PREFLIGHT, os.X_OK)
