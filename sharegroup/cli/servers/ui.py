"""The command `sharegroup ui`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.asked import asked

if TYPE_CHECKING:
    from sharegroup.config import Config

PORT = 9180


def ui(
    config: Annotated[Path, typer.Option(help="The job's configuration file, or that of all cells.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help=f"Instead of gateway.ui.port, else {PORT}; 0: any free port.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Instead of gateway.ui.host.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Instead of the file's bootstrap.servers.")] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help="Users may reset offsets, remove members and alter configs (experimental)."
        ),
    ] = False,
) -> None:
    """Show groups, windows, records and dead ends on a page, for browsers."""
    from sharegroup.ui.server import run_page

    def serve(found: Config) -> None:
        if bootstrap_servers is not None:
            job = found.job.model_copy(update={"bootstrap_servers": bootstrap_servers})
            found = dataclasses.replace(found, job=job)
        gateway = found.gateway
        run_page(
            found,
            host or gateway.ui_host,
            (gateway.ui_port or PORT) if port is None else port,
            allow_changes or gateway.ui_allow_changes,
        )

    asked(config, serve)
