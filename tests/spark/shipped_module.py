"""A module that reaches Spark's Python workers like the package: only in a zip."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.spark import shipping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: SparkSession, directory: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str) -> Path:
    """Replace the package by the module while the test runs, and return the zip's path."""
    archive = directory / "package.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr(f"{module}.py", text)
    monkeypatch.setitem(shipping._ARCHIVES, spark.sparkContext.applicationId, str(archive))
    return archive
