"""The workflows are valid, the hooks run the tools of this environment, and a target runs each long test."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
#: A file has long tests if it marks one, or runs its tests at each kind of server.
LONG = re.compile(r"mark\.long|served: Served|new_client_group: ")
SCRIPTS = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_valid(workflow: Path) -> None:
    command = [SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_ci_runs_the_script_that_every_ci_runs() -> None:
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]


def test_the_hooks_are_the_commands_of_make_lint() -> None:
    recipe = MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0]
    linters = [line.removeprefix("\t$(VENV)/bin/") for line in recipe.splitlines() if line.startswith("\t")]
    hooks = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in HOOKS]
    assert hooks == [linter.replace(" --no-cache", "") for linter in linters]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_the_tool_of_a_hook_is_installed(hook: dict[str, Any]) -> None:
    assert (SCRIPTS / Path(shlex.split(hook["entry"])[0]).name).is_file()


def test_a_target_runs_each_file_with_long_tests() -> None:
    commands = [line for line in MAKEFILE.replace("\\\n", " ").splitlines() if re.search(r"-m long\b", line)]
    arguments = {word.rstrip(")") for line in commands for word in line.split() if word.startswith("tests/")}
    run = {path for argument in arguments for path in ROOT.glob(argument)}
    run |= {path for folder in run for path in folder.rglob("test_*.py")}
    files = [path for tier in ("unit", "integration") for path in (ROOT / "tests" / tier).rglob("test_*.py")]
    marked = {path for path in files if LONG.search(path.read_text())}
    assert sorted(str(path.relative_to(ROOT)) for path in marked - run) == []
    assert len(marked) > 20
