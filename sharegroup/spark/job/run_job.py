"""The share-group job as a program: `jobs/run_share_group.py` under spark-submit, or `sharegroup job` without it.

The job runs until SIGTERM or Ctrl-C, and then ends between two batches with exit code 0. The exit code is 1 if the
configuration is invalid or the job cannot continue, and 3 if another job leads (FENCED_LEADER_EPOCH). It is 130 after a
Ctrl-C that arrives before the job handles signals.
"""

import dataclasses
import logging
import sys
import threading
from pathlib import Path

from sharegroup.config import NO_CELL, Config, load_config
from sharegroup.core.group_coordinator.assignors import get_assignor
from sharegroup.errors import FencedLeaderError, InvalidConfigError, ShareGroupError
from sharegroup.job.command_parser import CommandParser
from sharegroup.log_fields import LogFields
from sharegroup.spark.log_set_up import set_up_log

logger = logging.getLogger("sharegroup.spark.job.run_job")  # as a program the module is __main__

EXIT_FAILED = 1
EXIT_FENCED = 3
EXIT_INTERRUPTED = 130


def main() -> int:
    """Run the job and return the exit code."""
    parser = CommandParser(description="Kafka share groups (KIP-932) as a Spark job, on any broker.")
    parser.add_argument("--config", required=True, type=Path, help="YAML file, see conf/share_group.yaml")
    parser.add_argument(
        "--cell", default=NO_CELL, help="the cell whose groups this job serves, if the file has cells (experimental)"
    )
    arguments = parser.parse_args()
    set_up_log()
    try:
        config = load_config(arguments.config)
        for name in config.group.assignors:
            get_assignor(name)
        return _run(_absolute(config).for_cell(arguments.cell))
    except InvalidConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:  # Ctrl-C before the job handles the signal
        return EXIT_INTERRUPTED


def _absolute(config: Config) -> Config:
    """Return the configuration with absolute paths, valid in every working directory; URLs are unchanged."""
    job = config.job
    paths = {name: getattr(job, name) for name in ("tables_path", "checkpoint_path")}
    absolute = {name: path if "://" in path else str(Path(path).resolve()) for name, path in paths.items()}
    return dataclasses.replace(config, job=job.model_copy(update=absolute))


def _run(config: Config) -> int:
    # Spark is started only after the configuration was validated. Its JVM starts while the job's modules are imported.
    from pyspark import SparkContext

    threading.Thread(target=SparkContext._ensure_initialized, name="start-jvm", daemon=True).start()
    from sharegroup.spark.job.job import ShareGroupJob
    from sharegroup.spark.job.job_session import job_session
    from sharegroup.spark.job.stop_signal import StopSignal

    logger.info(
        "starting Spark; tables in %(file)s, brokers %(address)s",
        LogFields(file=config.job.tables_path, address=config.job.bootstrap_servers),
    )
    spark = job_session(config)
    try:
        ShareGroupJob(spark, config, StopSignal(spark)).run()
    except FencedLeaderError as error:
        print(error, file=sys.stderr)
        return EXIT_FENCED
    except ShareGroupError as error:
        logger.error("%(error)s", LogFields(error=error), exc_info=error.__cause__)
        return EXIT_FAILED
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
