"""The command `sharegroup move-group`.

The command executes a module of the job, because modules of the command line must not import the job.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.options.config_option import load_or_exit


def move_group(
    config: Annotated[Path, typer.Option(help="Configuration file that assigns the group to its new cell.")],
    group: Annotated[str, typer.Option(help="Group id.")],
    source: Annotated[
        str, typer.Option("--from", help="Cell whose tables have the group. Default: the job without cells.")
    ] = "",
) -> None:
    """Move a group to another cell (experimental). First stop its members and the jobs of both cells."""
    load_or_exit(config)
    arguments = ["--config", str(config), "--group", group, "--from", source]
    os.execv(sys.executable, [sys.executable, "-m", "sharegroup.job.cells.move_command", *arguments])
