"""The command `sharegroup move-group`. The command line itself does not know the job's engine, which a move does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.options.config_option import config_of


def move_group(
    config: Annotated[Path, typer.Option(help="The configuration file, which has the group in its new cell.")],
    group: Annotated[str, typer.Option(help="The group's id.")],
    source: Annotated[
        str, typer.Option("--from", help="The cell whose tables have the group; left out: the job without cells.")
    ] = "",
) -> None:
    """Move a group to another cell (experimental), while its members and the jobs of both cells are stopped."""
    config_of(config)
    arguments = ["--config", str(config), "--group", group, "--from", source]
    os.execv(sys.executable, [sys.executable, "-m", "sharegroup.job.cells.move_command", *arguments])
