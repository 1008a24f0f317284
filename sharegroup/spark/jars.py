"""Fetches the JARs of `conf/ivy.xml` with PySpark's Ivy, into a cache that all clones of the repository share.

    jars("spark")                          # -> [.../spark/delta-spark_4.2_2.13-4.4.0.jar, ...]
    python -m sharegroup.spark.jars spark broker     # fetches these sets in parallel, showing progress
    python -m sharegroup.spark.jars --list spark     # prints the paths of a set for spark-submit --jars

The cache is `$SHAREGROUP_CACHE`, else `$XDG_CACHE_HOME/sharegroup`, else `~/.cache/sharegroup`:

    jars/<hash of ivy.xml>/<conf>/*.jar    always complete, because it is filled under another name and then renamed
    ivy/                                   Ivy's own cache, so that configurations share their downloads
    spark-home/                            see `sharegroup.spark.spark_home`

A configuration is fetched when its JARs are first requested. `make` fetches the JARs that a target needs before it runs
the target.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from sharegroup.job.command_parser import CommandParser

IVY_XML = Path(__file__).resolve().parents[2] / "conf" / "ivy.xml"
IVY_SETTINGS = IVY_XML.with_name("ivysettings.xml")
#: The configurations of ivy.xml, each with its purpose and size.
CONFS = {
    "spark": "what Spark needs for Delta and Kafka, 23 MB",
    "broker": "a Kafka broker, 44 MB",
    "broker-4.4": "a Kafka 4.4 broker, 45 MB",
    "broker-3.9": "a Kafka 3.9 broker, 48 MB",
    "broker-3.7": "a Kafka 3.7 broker, 46 MB",
    "broker-2.8": "a Kafka 2.8 broker, 50 MB",
    "tools": "Kafka's command-line tools, 44 MB",
    "streams": "a Kafka Streams example, 70 MB",
    "s3": "what Spark needs for S3, 13 MB",
    "s3-server": "an S3 server, 18 MB",
}
MIN_JAVA = 17
#: JVM options for short-lived processes: only the quick compiler (C1), and a garbage collector without extra threads.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')


class JarsError(RuntimeError):
    """The JARs cannot be resolved, or Java is missing; the message describes the fix."""


def jars(conf: str) -> list[Path]:
    """Return the absolute paths of the JARs of one configuration of `conf/ivy.xml`, resolving them first if necessary.

    Raises:
        JarsError: the configuration does not exist, there is no suitable Java, or Ivy could not download a JAR.
    """
    if conf not in CONFS:
        raise JarsError(f"conf/ivy.xml has no configuration {conf} (there are {', '.join(CONFS)})")
    target = _target(conf)
    if not target.is_dir():
        with _locked(cache_directory() / f"lock-{conf}"):
            if not target.is_dir():
                _resolve(conf, target)
    return sorted(target.glob("*.jar"))


def java() -> str:
    """Return the Java command: `$JAVA_HOME/bin/java`, or else `java` on the PATH.

    Raises:
        JarsError: there is no Java command, it cannot be started, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    requirement = f"Java {MIN_JAVA} or newer is needed"
    if command is None:
        raise JarsError(f"{requirement}, but there is no java on the PATH and JAVA_HOME is not set")
    try:
        result = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise JarsError(f"{requirement}, but {command} cannot be started") from error
    version = _JAVA_VERSION.search(result.stderr + result.stdout)
    if version is None or int(version["major"]) < MIN_JAVA:
        raise JarsError(f"{requirement}, but {command} is {version['major'] if version else 'of an unknown version'}")
    return command


def cache_directory() -> Path:
    """Return the directory of the cache, which may not exist yet."""
    own = os.environ.get("SHAREGROUP_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own).expanduser().absolute() if own else Path(shared) / "sharegroup"


def _target(conf: str) -> Path:
    try:
        digest = hashlib.sha256(IVY_XML.read_bytes()).hexdigest()[:16]
    except FileNotFoundError as error:
        raise JarsError("conf/ivy.xml does not exist: install from a checkout with `pip install -e .`") from error
    return cache_directory() / "jars" / digest / conf


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file during a `with` block, after waiting for other processes that hold it.

    The kernel releases the lock when its holder dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(conf: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _report(f"fetching {CONFS[conf]}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{conf}-") as scratch:
        _run_ivy(conf, Path(scratch) / conf)
        (Path(scratch) / conf).rename(target)
    _report(f"fetched {conf}, into {target}")


def _run_ivy(conf: str, destination: Path) -> None:
    command = [java(), "-jar", str(_ivy_jar()), "-settings", str(IVY_SETTINGS), "-ivy", str(IVY_XML)]
    command += ["-cache", str(cache_directory() / "ivy")]
    command += ["-confs", conf, "-types", "jar", "bundle"]  # some artifacts, snakeyaml's for one, are OSGi bundles
    command += ["-retrieve", str(destination / "[artifact]-[revision](-[classifier]).[ext]")]
    ivy = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ivy.returncode != 0:
        output = ivy.stdout.splitlines(keepends=True)
        raise JarsError(f"Ivy could not resolve the {conf} JARs of conf/ivy.xml:\n{_problems(output)}")


def _problems(output: list[str]) -> str:
    """Return the part of Ivy's output that explains the failure: from its problem summary on, without progress dots."""
    start = next((i for i, line in enumerate(output) if ":: problems summary" in line), max(0, len(output) - 20))
    return "".join(line for line in output[start:] if line.strip(" .\t\n"))


def pyspark_directory() -> Path | None:
    """Return the directory of the installed PySpark, or None if there is none."""
    spec = importlib.util.find_spec("pyspark")  # not imported, because an import takes a second
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _ivy_jar() -> Path:
    pyspark = pyspark_directory()
    for jar in (pyspark / "jars").glob("ivy-*.jar") if pyspark is not None else ():
        return jar
    raise JarsError("the Ivy JAR, which is part of pyspark, is missing. Run `make setup` to install it")


def _report(text: str) -> None:
    print(f"jars: {text}", file=sys.stderr, flush=True)


def main(command_line: list[str]) -> int:
    """Fetch the JARs of the configurations named on the command line, in parallel, and return the exit code."""
    parser = CommandParser(
        prog="python -m sharegroup.spark.jars",
        description="Fetches the missing JARs of conf/ivy.xml into a cache that all clones share.",
    )
    parser.add_argument("conf", nargs="+", help=f"the sets of JARs: {', '.join(CONFS)}")
    parser.add_argument("--list", action="store_true", help="print the paths, separated by commas")
    arguments = parser.parse_args(command_line)
    try:
        with ThreadPoolExecutor(len(arguments.conf)) as threads:
            found = [str(path) for paths in threads.map(jars, arguments.conf) for path in paths]
    except JarsError as error:
        _report(str(error))
        return 1
    if arguments.list:
        print(",".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
