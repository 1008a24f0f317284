"""The cache of JARs, with a fake Java instead of the one that runs Ivy."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from sharegroup.spark import jars as module
from sharegroup.spark.jars import CONFS, IVY_XML, JarsError, jars, java

# Responds to -version. Otherwise it acts as Ivy: it creates two JARs at the path of -retrieve and logs its run.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
for last; do :; done
directory=$(dirname "$last")
mkdir -p "$directory"
echo "  [SUCCESSFUL ] org.example#example;1.2!example.jar (9ms)"
touch "$directory/b.jar" "$directory/a.jar"
echo ran >>"$FAKE_JAVA_RUNS"
"""

FAILING_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
for last; do :; done
mkdir -p "$(dirname "$last")"
touch "$(dirname "$last")/half.jar"
echo "downloading something ..."
echo ":: problems summary ::"
echo "module not found: org.example#example;1.2"
exit 1
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("SHAREGROUP_CACHE", str(directory))
    monkeypatch.setenv("FAKE_JAVA_RUNS", str(tmp_path / "runs"))
    return directory


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file with a line for each run of Ivy."""
    return tmp_path / "runs"


def install_java(home: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def test_jars_are_resolved_once_and_kept_by_the_content_of_ivy_xml(
    tmp_path: Path, cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_java(tmp_path / "jdk", FAKE_JAVA, monkeypatch)

    first, again = jars("spark"), jars("spark")

    assert first == again
    assert [path.name for path in first] == ["a.jar", "b.jar"]
    assert re.fullmatch(r"jars/[0-9a-f]{16}/spark", first[0].parent.relative_to(cache).as_posix())
    assert runs.read_text().splitlines() == ["ran"]
    assert capsys.readouterr().err.splitlines() == [
        "jars: fetching what Spark needs for Delta and Kafka, 23 MB",
        f"jars: fetched spark, into {first[0].parent}",
    ]

    changed = tmp_path / "ivy.xml"
    changed.write_text(IVY_XML.read_text() + "<!-- changed -->")
    monkeypatch.setattr(module, "IVY_XML", changed)

    assert jars("spark")[0].parent != first[0].parent
    assert runs.read_text().splitlines() == ["ran", "ran"]


def test_several_sets_are_fetched_by_one_command(
    tmp_path: Path, cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_java(tmp_path / "jdk", FAKE_JAVA, monkeypatch)

    assert module.main(["--list", "spark", "broker"]) == 0

    assert [Path(path).parent.name for path in capsys.readouterr().out.strip().split(",")] == ["spark"] * 2 + [
        "broker"
    ] * 2
    assert runs.read_text().splitlines() == ["ran", "ran"]


def test_a_failed_resolution_leaves_nothing_that_looks_complete(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path / "jdk", FAILING_JAVA, monkeypatch)

    with pytest.raises(JarsError, match="could not resolve the broker JARs") as failure:
        jars("broker")

    assert "module not found: org.example#example;1.2" in str(failure.value)
    assert "downloading" not in str(failure.value)
    assert list(cache.rglob("*.jar")) == []


def test_command_line_reports_the_error_in_one_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")

    assert module.main(["spark"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "jars: Java 17 or newer is needed, but there is no java on the PATH and JAVA_HOME is not set"
    )


@pytest.mark.parametrize(("answer", "problem"), [('version "1.8.0_392"', "is 8"), ("hello", "of an unknown version")])
def test_an_old_or_unknown_java_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, problem: str
) -> None:
    install_java(tmp_path / "jdk", f"#!/bin/sh\necho '{answer}' >&2\n", monkeypatch)

    with pytest.raises(JarsError, match=problem):
        java()


def test_an_unknown_configuration_names_the_known_ones(cache: Path) -> None:
    with pytest.raises(JarsError, match="kafka \\(there are spark, broker, broker-4\\.4, "):
        jars("kafka")


def test_every_configuration_is_in_ivy_xml() -> None:
    declared = [conf.attrib["name"] for conf in ElementTree.parse(IVY_XML).iter("conf")]

    assert declared == list(CONFS)


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SHAREGROUP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(module, "_resolve", lambda conf, target: target.mkdir(parents=True))

    assert jars("tools") == []
    assert [path.name for path in (tmp_path / "xdg" / "sharegroup" / "jars").glob("*/*")] == ["tools"]


def test_help_and_the_list_for_spark_submit(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        module.main(["--help"])
    assert end.value.code == 0
    assert "conf/ivy.xml" in capsys.readouterr().out

    monkeypatch.setattr(module, "jars", lambda conf: [Path(f"/cache/{conf}-1.jar"), Path(f"/cache/{conf}-2.jar")])
    assert module.main(["--list", "spark"]) == 0
    assert capsys.readouterr().out == "/cache/spark-1.jar,/cache/spark-2.jar\n"
