"""Reads the behaviours and checks them: each one names a test of ours that exists, and only methods that Kafka has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

TESTS = Path(__file__).parents[1]
HERE = Path(__file__).parent
#: Parametrized by the ids of the worked examples, which are in this file.
EXAMPLES = TESTS / "scenarios" / "share_partition.jsonl"

_TEST = re.compile(r"(?P<path>[\w/]+\.py)::(?P<name>test_\w+)(?:\[(?P<example>[\w-]+)\])?")
_FIELDS = {"says", "kafka", "kip", "tests", "differs", "because"}


class ConformanceError(Exception):
    """The behaviours are incomplete or name something that does not exist; the message lists every problem."""


class Behaviour(NamedTuple):
    """One behaviour that Kafka requires.

    `kafka` names methods as `Class.method` and `kips` proposals by number. `tests` are pytest ids below tests/.
    `differs` and `because` are empty if this project behaves as Kafka does.
    """

    says: str
    kafka: tuple[str, ...]
    kips: tuple[int, ...]
    tests: tuple[str, ...]
    differs: str
    because: str


class Area(NamedTuple):
    """A section of the page."""

    title: str
    behaviours: tuple[Behaviour, ...]


class KafkaTests(NamedTuple):
    """A test class of Kafka's: where its source is in Kafka's repository, and its methods about share groups."""

    name: str
    source: str
    methods: tuple[str, ...]


class Behaviours(NamedTuple):
    """All behaviours.

    `client_only` are lines without a test: (what the client does, methods).
    """

    areas: tuple[Area, ...]
    client_only: tuple[tuple[str, tuple[str, ...]], ...]
    kafka_tests: tuple[KafkaTests, ...]


def load() -> Behaviours:
    """Return the behaviours.

    Raises:
        ConformanceError: a behaviour has no test, names a test or a method that does not exist, or a method of Kafka's
            is in no behaviour.
    """
    found = Behaviours(
        tuple(_area(_yaml(path)) for path in sorted((HERE / "behaviours").glob("*.yaml"))),
        tuple((line["says"], tuple(line["kafka"])) for line in _yaml(HERE / "client_only.yaml")),
        tuple(
            KafkaTests(name, entry["source"], tuple(entry["methods"]))
            for name, entry in _yaml(HERE / "kafka_tests.yaml").items()
        ),
    )
    if problems := problems_of(found):
        raise ConformanceError("\n".join(problems))
    return found


def problems_of(found: Behaviours) -> list[str]:
    """Return what is missing or does not exist, a sentence each."""
    lines = [line for area in found.areas for line in area.behaviours]
    problems = [f"{line.says!r}: {problem}" for line in lines for problem in _problems_of_line(line)]
    there = {f"{tests.name}.{method}" for tests in found.kafka_tests for method in tests.methods}
    named = {method for line in lines for method in line.kafka}
    named |= {method for _, methods in found.client_only for method in methods}
    problems += [f"Kafka has no test {method}" for method in sorted(named - there)]
    return problems + [f"Kafka's test {method} is in no behaviour" for method in sorted(there - named)]


def _problems_of_line(line: Behaviour) -> list[str]:
    problems = [] if line.tests else ["no test"]
    problems += [] if line.kafka or line.kips else ["neither a test of Kafka's nor a KIP requires it"]
    problems += [] if bool(line.differs) == bool(line.because) else ["a difference needs a reason, and a reason one"]
    return problems + [f"there is no test {test}" for test in line.tests if not _is_there(test)]


def _is_there(test: str) -> bool:
    match = _TEST.fullmatch(test)
    if match is None or match["name"] not in _test_names(TESTS / match["path"]):
        return False
    return match["example"] is None or f'"id": "{match["example"]}"' in EXAMPLES.read_text(encoding="utf-8")


@cache
def _test_names(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _area(content: dict[str, object]) -> Area:
    lines = content["behaviours"]
    assert isinstance(lines, list)
    return Area(str(content["title"]), tuple(_behaviour(line) for line in lines))


def _behaviour(line: dict[str, object]) -> Behaviour:
    if unknown := set(line) - _FIELDS:
        raise ConformanceError(f"{line.get('says')!r}: unknown fields {sorted(unknown)}")
    return Behaviour(
        str(line["says"]),
        _texts(line.get("kafka")),
        tuple(int(kip) for kip in _texts(line.get("kip"))),
        _texts(line.get("tests")),
        str(line.get("differs", "")),
        str(line.get("because", "")),
    )


def _texts(value: object) -> tuple[str, ...]:
    """The elements of a list as texts; a single value is a list of one."""
    if value is None:
        return ()
    return tuple(str(element) for element in (value if isinstance(value, list) else [value]))


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
