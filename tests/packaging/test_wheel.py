"""The wheel, in environments that have what it asks for and nothing else: for the gateway, and for the job.

The distributions are this environment's, linked one by one, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from uv import find_uv_bin

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Out of a copy of what is committed or about to be: setuptools leaves its build folder in the source.
    source = folder / "source"
    for name in ("sharegroup", "pyproject.toml", "README.md", "LICENSE"):
        _copy(ROOT / name, source / name)
    build = ["build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    _uv(*build, str(source))
    (built,) = folder.glob("*.whl")
    return built


def _uv(*arguments: str) -> None:
    """Run the locked uv, without a download."""
    subprocess.run([find_uv_bin(), "--quiet", "--offline", *arguments], check=True)


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        for file in source.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                _copy(file, to / file.relative_to(source))
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(source.read_bytes())


def environment(folder: Path, wheel: Path, extra: str = "") -> Path:
    """A virtual environment with the wheel and what it requires; its folder of programs."""
    venv.create(folder, with_pip=False)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    site = Path(paths["purelib"])
    python = str(folder / "bin" / "python")
    _uv("pip", "install", "--python", python, "--no-deps", "--no-index", str(wheel))
    for found in _required(_installed(site), extra):
        _link(found, site)
    return folder / "bin"


def _installed(site: Path) -> Distribution:
    (found,) = Distribution.discover(name="sharegroup", path=[str(site)])
    return found


def _required(of: Distribution, extra: str) -> Iterator[Distribution]:
    """All that it requires, however indirectly."""
    seen: set[tuple[str, str]] = set()
    waiting = [(of, extra)]
    while waiting:
        found, extra = waiting.pop()
        for text in found.requires or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            for its_extra in wanted.extras or {""}:
                key = wanted.name.lower(), its_extra
                if key not in seen and wanted.name != "sharegroup":
                    seen.add(key)
                    needed = distribution(wanted.name)
                    yield needed
                    waiting += [(needed, its_extra), (needed, "")]


def _link(found: Distribution, site: Path) -> None:
    """Its packages, modules and metadata, by the names that they have beside each other."""
    for file in found.files or ():
        top = file.parts[0]
        place = site / top
        if top not in ("..", "__pycache__") and not place.exists():
            place.symlink_to(Path(str(found.locate_file(top))))


def run(program: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([str(program), *arguments], env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_without_extras_brings_the_gateway_and_no_spark(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "core", wheel)
    assert "gateway" in run(programs / "sharegroup", "gateway", "--help")
    told = run(programs / "python", "-I", "-c", EVERYTHING_BUT_SPARK).split()
    assert {"sharegroup.gateway.server", "sharegroup.client.consumer"} <= set(told)
    assert [name for name in ("pyspark", "delta", "pandas", "psutil") if name in told] == []


#: Imports each module that is not Spark's or of `testing`, and prints the modules that there are then.
EVERYTHING_BUT_SPARK = """
import importlib, pkgutil, sys
import sharegroup
for found in pkgutil.walk_packages(sharegroup.__path__, "sharegroup."):
    if found.name.split(".")[1] not in ("spark", "testing") and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(*sys.modules)
"""


def test_the_wheel_with_spark_brings_the_job_and_its_members(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "spark", wheel, "spark")
    code = (
        "import sharegroup.spark.job.job, sharegroup.spark as s; print(s.ShareConsumer.__name__, s.DeltaSink.__name__)"
    )
    assert run(programs / "python", "-I", "-c", code).split() == ["ShareConsumer", "DeltaSink"]


def test_what_the_wheel_requires_is_what_it_needs(wheel: Path, tmp_path: Path) -> None:
    """An environment without one of its requirements does not run it: the test above could fail."""
    programs = environment(tmp_path / "less", wheel)
    for place in (tmp_path / "less").rglob("scramp"):
        place.unlink()
    with pytest.raises(AssertionError, match="scramp"):
        run(programs / "python", "-I", "-c", "import sharegroup.gateway.server")
