"""Ships the package to every Python process of a Spark application, whether or not it is installed there.

Executors receive a zip of the package through `addPyFile`. The driver's planning worker, which queries a Python data
source for its offsets, does not receive py-files, but it runs on the driver's machine. Therefore the registered data
source is a thin class that is pickled by value. The class adds the same zip to its path and then imports the real
reader. Nothing else is pickled by value: unpickling the package's classes would cost tens of milliseconds per task.

This module is the part that is pickled, so its top level must not import anything of the package.
"""

from __future__ import annotations

import atexit
import importlib
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

_ARCHIVES: dict[str, str] = {}


def ship_package(spark: SparkSession) -> str:
    """Zip the package, ship the zip to the executors, and return the zip's path on the driver.

    Further calls in the same application only return the path.
    """
    application = spark.sparkContext.applicationId
    if application not in _ARCHIVES:
        directory = tempfile.mkdtemp(prefix="sharegroup-package-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        archive = str(Path(directory) / "sharegroup.zip")
        _zip_package(archive)
        spark.sparkContext.addPyFile(archive)
        _ARCHIVES[application] = archive
    return _ARCHIVES[application]


def _zip_package(archive: str) -> None:
    """Write the package to a zip, with the bytecode that Python has cached for it.

    Workers cannot cache bytecode for modules in a zip. Outdated bytecode is harmless, because Python ignores it.
    """
    root = Path(__file__).resolve().parent.parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(Path("sharegroup") / path.relative_to(root))
                package.write(path, name)
                if path.suffix == ".py" and (bytecode := Path(cache_from_source(str(path)))).is_file():
                    package.write(bytecode, f"{name}c", zipfile.ZIP_STORED)


def register_source(spark: SparkSession, name: str, reader: str, schema: str) -> None:
    """Register the data source `name` with the reader class `reader` ("module:Class").

    The reader is constructed from the JSON in the source's option `options`.
    """
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    archive = ship_package(spark)
    spark.dataSource.register(_source_class(name, reader, schema, archive))


def _source_class(source_name: str, reader: str, source_schema: str, archive: str) -> type[DataSource]:
    class ShippedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return source_schema

        def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's
            return _ShippedReader(archive, reader, self.options["options"])

    return ShippedSource


class _ShippedReader(SimpleDataSourceStreamReader):
    """A proxy that creates the real reader on first use.

    Spark also creates a reader in a process that only pickles the reader. That process does not need the real reader's
    imports.
    """

    def __init__(self, archive: str, reader: str, options: str) -> None:
        self._archive, self._name, self._options = archive, reader, options
        self._made: SimpleDataSourceStreamReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._reader.initialOffset()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        return self._reader.read(start)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802 - Spark's
        return self._reader.readBetweenOffsets(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    @property
    def _reader(self) -> SimpleDataSourceStreamReader:
        if self._made is None:
            if self._archive not in sys.path:
                sys.path.insert(0, self._archive)
            importlib.import_module("sharegroup.spark.log_set_up").end_quietly_with_the_jvm()
            module_name, _, class_name = self._name.partition(":")
            reader_class: Any = getattr(importlib.import_module(module_name), class_name)
            self._made = reader_class(json.loads(self._options))
        return self._made
