"""A module that reaches Spark's Python workers as the package does: in a zip, and from nowhere else."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.spark import shipping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: SparkSession, directory: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str) -> Path:
    """Put the module into the place of the package, for as long as the test lasts; the zip's path."""
    archive = directory / "package.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr(f"{module}.py", text)
    monkeypatch.setitem(shipping._ARCHIVES, spark.sparkContext.applicationId, str(archive))
    return archive
