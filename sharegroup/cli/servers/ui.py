"""The command `sharegroup ui`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.config_option import run_or_exit

if TYPE_CHECKING:
    from sharegroup.config import Config

PORT = 9180


def ui(
    config: Annotated[Path, typer.Option(help="Configuration file of the job, or of all cells.")],
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help=f"Port (default: gateway.ui.port, or {PORT} if that is 0). 0: any free port."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Overrides gateway.ui.host.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Overrides bootstrap.servers.")] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help="Allow users to reset offsets, remove members and alter configs (experimental)."
        ),
    ] = False,
) -> None:
    """Serve a web page with groups, their records in flight, and records that were rejected or archived."""
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

    run_or_exit(config, serve)
