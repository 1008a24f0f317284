"""The directory that a local Spark uses as SPARK_HOME."""

from pathlib import Path

import pyspark
import pytest

from sharegroup.spark.spark_home import find_spark_home

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def no_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SHAREGROUP_CACHE", str(tmp_path / "cache"))


def test_it_has_scripts_and_jars_but_no_python(tmp_path: Path) -> None:
    home = find_spark_home()
    assert home.is_relative_to(tmp_path)
    assert {path.name: path.resolve() for path in home.iterdir()} == {
        "bin": INSTALLED.resolve() / "bin",
        "jars": INSTALLED.resolve() / "jars",
    }
    assert find_spark_home() == home


def test_a_spark_home_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert find_spark_home() == Path("/opt/spark")


def test_without_a_cache_it_is_the_installed_pyspark(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, so no directory can be created below it")
    assert find_spark_home() == INSTALLED
