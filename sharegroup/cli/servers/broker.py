"""The command `sharegroup broker`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def broker(
    port: Annotated[int, typer.Option(help="Where clients connect; 0: any free port.")] = 9092,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the data here; without it, the data is removed when the broker stops.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME[:PARTITIONS]", help="Create this topic.")] = None,
) -> None:
    """Run a Kafka broker on this machine, to try things, until Ctrl-C or SIGTERM."""
    from sharegroup.testing.embedded_kafka import run_broker

    raise typer.Exit(run_broker(port, data_dir, topic or []))
