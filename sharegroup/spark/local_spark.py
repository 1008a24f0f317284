"""Settings and environment variables for a Spark session on this machine, with the cached JARs (`jars`)."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from sharegroup.config import is_s3
from sharegroup.spark.jars import jars
from sharegroup.spark.spark_home import find_spark_home

LOG4J2_PROPERTIES = Path(__file__).resolve().with_name("log4j2.properties")
#: As many attempts for a task as on a cluster. Local Spark attempts a task once by default, and then a read that times
#: out during a leader election restarts the query.
_TASK_ATTEMPTS = 4


def local_master(cores: int | str = "*") -> str:
    """Return the URL of a Spark master on this machine with this number of cores; `*` means all."""
    return f"local[{cores},{_TASK_ATTEMPTS}]"


def local_jars(paths: Iterable[str] = ()) -> list[Path]:
    """Return the JARs for a session that uses these paths. Paths on S3 need more JARs.

    Raises JarsError if the JARs cannot be fetched.
    """
    return [*jars("spark"), *(jars("s3") if any(map(is_s3, paths)) else ())]


def local_settings(paths: Iterable[str] = ()) -> dict[str, str]:
    """Return the `--conf` settings of spark-submit for a local session that uses these paths.

    Raises JarsError if the JARs cannot be fetched.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(map(str, local_jars(paths))),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG4J2_PROPERTIES}",
    }


def pyspark_environment(master: str, driver_memory: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables for PySpark.

    The variables make PySpark start a driver with these settings. The driver and the workers use this process's Python
    interpreter.
    """
    arguments = ["--master", master, "--driver-memory", driver_memory]
    for key, value in settings.items():
        arguments += ["--conf", f"{key}={value}"]
    return {
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
        **python_environment(),
    }


def python_environment() -> dict[str, str]:
    """Return environment variables that make PySpark use this process's Python and the result of `find_spark_home`."""
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(find_spark_home()),
    }
