"""The command `sharegroup broker`."""

from pathlib import Path
from typing import Annotated

import typer


def broker(
    port: Annotated[int, typer.Option(help="Port for clients. 0: any free port.")] = 9092,
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory of the data. Default: a temporary one, which is removed at the end.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:PARTITIONS]", help="Topic to create. May be repeated.")
    ] = None,
) -> None:
    """Run a Kafka broker on this machine for trying things out, until Ctrl-C or SIGTERM."""
    from sharegroup.testing.embedded_kafka import run_broker

    raise typer.Exit(run_broker(port, data_dir, topic or []))
