"""The command line as a process: what it loads to begin with, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner, Result

from sharegroup import __version__
from sharegroup.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
#: What takes seconds, or a tenth of one, to load, and what no command needs before it runs.
HEAVY = ("pyspark", "pandas", "deltalake", "pyarrow", "kafka", "pydantic", "yaml", "sharegroup.config")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )


def sharegroup(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "sharegroup.cli", *arguments, **environment)


def invoked(*arguments: str, **environment: str) -> Result:
    """Run the command in this process, which is cheaper."""
    return CliRunner().invoke(app, arguments, prog_name="sharegroup", env=environment)


def test_nothing_heavy_is_loaded_before_a_command_runs() -> None:
    done = run("-c", f"import sys, sharegroup.cli.app; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_an_administrators_command_loads_no_data_frames() -> None:
    heavy = ("pyspark", "pandas", "deltalake", "pyarrow", "pydantic")
    modules = "sharegroup.cli.app, sharegroup.kafka_clients.admin, sharegroup.cli.share_groups.describing"
    done = run("-c", f"import sys, {modules}; print([name for name in {heavy!r} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_help_has_every_command() -> None:
    done = sharegroup("--help", COLUMNS="120")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout


#: All commands, also those that are added later.
COMMANDS = tuple(sorted(get_group(app).commands))
#: Commands that are no part of `sharegroup`.
PROGRAMS = (
    *(f"jobs/{path.name}" for path in sorted((ROOT / "jobs").glob("*.py"))),
    "-m tests.simulation.simulate",
    "-m sharegroup.spark.jars",
    "-m sharegroup.job.cells.move_command",
    "-m sharegroup.spark.job.run_job",
)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_each_command_has_the_version(command: str) -> None:
    done = invoked(*filter(None, [command]), "--version")
    assert (done.exit_code, done.output) == (0, f"sharegroup {__version__}\n")


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_has_the_version(program: str) -> None:
    done = run(*program.replace("jobs/", f"{ROOT}/jobs/").split(), "--version")
    assert (done.returncode, done.stdout) == (0, f"sharegroup {__version__}\n"), done.stderr


def test_the_job_does_not_start_without_its_assignors(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("group: {group.share.assignors: racks.NearestAssignor}")
    done = run("-m", "sharegroup.spark.job.run_job", "--config", str(path))
    assert done.returncode == 1
    assert "class racks.NearestAssignor cannot be used as an assignor: ModuleNotFoundError" in done.stderr


def test_shell_completion() -> None:
    done = run(
        "-c",
        "import sys; sys.argv[0] = 'sharegroup'; import sharegroup.cli.app as a; a.app(prog_name='sharegroup')",
        _SHAREGROUP_COMPLETE="complete_bash",
        COMP_WORDS="sharegroup share-gr",
        COMP_CWORD="1",
    )
    assert done.stdout.split() == ["share-groups"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["share-groups", "--list"], 'Missing required argument "[bootstrap-server]"'),
        (["share-groups", "--list", "--delete"], "Command must include exactly one action"),
        (["share-groups", "--describe", "--state", "Empty", "--group", "g"], "does not take a value for [state]"),
        (["configs"], "Command must include exactly one action: --describe, --alter"),
        (["configs", "--alter"], "An entity name must be specified with --alter of groups"),
        (["configs", "--alter", "--group", "g"], "At least one of --add-config, --add-config-file, or --delete"),
        (
            ["configs", "--alter", "--group", "g", "--add-config", "a=1", "--add-config-file", "x"],
            "Only one of --add-config or --add-config-file must be specified",
        ),
        (["configs", "--alter", "--group", "g", "--add-config-file", "x"], "Cannot read x: No such file"),
        (["configs", "--entity-type", "topics", "--describe"], "Invalid entity type topics"),
        (
            ["configs", "--describe", "--add-config", "a=b"],
            'Option "[describe]" can\'t be used with option "[add-config]"',
        ),
        (["configs", "--group", "g", "--entity-name", "h", "--describe"], "Only one of --entity-name and --group"),
        (["configs", "--group", "g", "--alter", "--all"], 'Option "[all]" can\'t be used with option "[alter]"'),
    ],
)
def test_a_refusal_is_a_line_and_exit_code_1(arguments: list[str], message: str) -> None:
    done = invoked(*arguments, SHAREGROUP_BOOTSTRAP_SERVER="")
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_is_not_there() -> None:
    done = sharegroup("share-groups", "--bootstrap-server", "127.0.0.1:1", "--list", "--timeout", "300")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: Executing share group command failed due to Unable to bootstrap" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["no-value\n", "ssl.truststore.locatoin=x\n", None])
def test_settings_of_the_connection_that_are_wrong(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_text("# a comment\n\nclient.id=admin\n" + content)
    done = invoked("share-groups", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path), "--list")
    assert (done.exit_code, done.stdout) == (1, "")
    assert {"no-value\n": "has a line without name=value", None: "Cannot read"}.get(
        content, "Unknown property ssl.truststore.locatoin"
    ) in done.stderr


def test_an_unknown_option_is_refused() -> None:
    done = sharegroup("share-groups", "--bootstrap-server", "localhost:1", "--list", "--new-consumer")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option: --new-consumer" in done.stderr
