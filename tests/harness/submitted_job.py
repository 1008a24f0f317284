"""A job of this project as users start it: `spark-submit` as a child process, with its log in a file.

    with SubmittedJob("jobs/run_share_group.py", ["--config", path], log_path) as job:
        job.await_log("the share-group job is running")

`terminate` sends SIGTERM and returns the exit code; `kill` sends SIGKILL to the JVM and its Python children.
(spark-submit's shell becomes the JVM, so `pid` is the JVM's.)
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pyspark

from sharegroup.spark.local_spark import local_master, local_settings, python_environment
from sharegroup.testing.logged_process import LoggedProcess, LoggedProcessError

ROOT = Path(__file__).resolve().parents[2]
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


class SubmittedJobError(LoggedProcessError):
    """The job ended or did not start in time; the message contains the end of its log."""


class SubmittedJob(LoggedProcess):
    """A submitted job. `script` is relative to the checkout; `conf` is passed to spark-submit as `--conf`.

    Its temporary files are in a directory beside the log, because a killed job does not remove them (30 MB).
    """

    error = SubmittedJobError

    def __init__(
        self,
        script: str,
        arguments: Sequence[str],
        log_path: Path,
        *,
        master: str = local_master(2),
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        driver_memory: str = "1g",
    ) -> None:
        settings = {**local_settings(), **(conf or {})}
        self._temporary = log_path.with_name(f"{log_path.stem}-temporary")
        settings["spark.driver.extraJavaOptions"] += f" -Djava.io.tmpdir={self._temporary}"
        settings["spark.local.dir"] = str(self._temporary)
        command = [str(_SUBMIT), "--master", master, "--driver-memory", driver_memory]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        super().__init__(
            "job",
            [*command, str(ROOT / script), *arguments],
            log_path,
            environment={**python_environment(), "TMPDIR": str(self._temporary), **(environment or {})},
            working_directory=working_directory,
        )

    def start(self) -> Self:
        shutil.rmtree(self._temporary, ignore_errors=True)  # of the process before
        self._temporary.mkdir()
        return super().start()
