"""The workflows are valid and run what .ci/run runs, and the pre-commit hooks run the tools of this environment."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_valid(workflow: Path) -> None:
    command = [SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_ci_runs_the_script_that_every_ci_runs() -> None:
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]


def test_the_hooks_are_the_commands_of_make_lint() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    linters = [line.removeprefix("\t$(VENV)/bin/") for line in recipe.splitlines() if line.startswith("\t")]
    hooks = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in HOOKS]
    assert hooks == [linter.replace(" --no-cache", "") for linter in linters]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_the_tool_of_a_hook_is_installed(hook: dict[str, Any]) -> None:
    assert (SCRIPTS / Path(shlex.split(hook["entry"])[0]).name).is_file()
