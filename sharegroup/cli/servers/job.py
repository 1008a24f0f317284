"""The command `sharegroup job`: run the share-group job on this machine. `sharegroup.spark.jars` provides its JARs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sharegroup.cli.options.config_option import load_or_exit

if TYPE_CHECKING:
    from sharegroup.config import JobConfig


def job(
    config: Annotated[Path, typer.Option(help="Configuration file.")],
    driver_memory: Annotated[str, typer.Option(help="Memory of Spark's JVM.")] = "1g",
    cell: Annotated[str, typer.Option(help="Cell to run the job of, if the file has cells (experimental).")] = "",
) -> None:
    """Run the share-group job on this machine. On a cluster, run jobs/run_share_group.py with spark-submit."""
    from sharegroup.spark.jars import JarsError

    try:
        _run_job(config, load_or_exit(config).for_cell(cell).job, driver_memory, cell)
    except JarsError as error:
        typer.echo(f"job: {error}", err=True)
        raise typer.Exit(1) from None


def _run_job(config: Path, job_config: JobConfig, driver_memory: str, cell: str) -> NoReturn:
    """Replace this process by `sharegroup.spark.job.run_job`. Raise JarsError if Java or a JAR is missing."""
    from sharegroup.spark.local_spark import local_master, local_settings, pyspark_environment

    settings = local_settings([job_config.tables_path, job_config.checkpoint_path])
    environment = pyspark_environment(local_master(), driver_memory, settings)
    command = [sys.executable, "-m", "sharegroup.spark.job.run_job", "--config", str(config), "--cell", cell]
    os.execve(sys.executable, command, {**os.environ, **environment})
