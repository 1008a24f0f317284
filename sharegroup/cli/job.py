"""Running the share-group job on this machine, with the JARs that set-up has fetched."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from sharegroup.config import JobConfig
from sharegroup.testkit.local_spark import local_settings, pyspark_environment


def run_job(config: Path, job: JobConfig, driver_memory: str, cell: str) -> NoReturn:
    """Become the job: this process goes on as `sharegroup.spark.job.run_job`. `job` is the cell's in the file `config`.

    Raises JarsError.
    """
    settings = local_settings([job.tables_path, job.checkpoint_path])
    environment = pyspark_environment("local[*]", driver_memory, settings)
    command = [sys.executable, "-m", "sharegroup.spark.job.run_job", "--config", str(config), "--cell", cell]
    os.execve(sys.executable, command, {**os.environ, **environment})
