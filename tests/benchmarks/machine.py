"""What ran the benchmarks: without it no number means anything."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from sharegroup.spark.jars import jars, java

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "kafka-python", "confluent-kafka", "pyarrow", "pandas")


def machine() -> dict[str, object]:
    """Cores, memory, load before the start, date, versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "java": _java_version(),
        "kafka_broker": _broker_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _java_version() -> str:
    said = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    found = re.search(r'"([^"]+)"', said)
    return found.group(1) if found else "unknown"


def _broker_version() -> str:
    found = [re.fullmatch(r"kafka_2\.13-(.+)\.jar", path.name) for path in jars("broker")]
    return next((match.group(1) for match in found if match), "unknown")
