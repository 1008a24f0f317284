"""docs/conformance.md, made of the behaviours."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.conformance.behaviours import TESTS, Area, Behaviour, Behaviours, KafkaTests

PAGE = TESTS.parent / "docs" / "conformance.md"
KAFKA = "https://github.com/apache/kafka/blob/4.3.1/"
INTRODUCTION = """# Conformance

What Kafka requires of share groups, and the test of this project that proves each behaviour. The behaviours are
those of KIP-932 and its successors, and of Kafka's own test classes about share groups, which were read method
by method.

Of {behaviours} behaviours {same} are the same as in Kafka 4.3. The other {differing} **differ** on purpose, and
each has its reason. Together they cover the {methods} methods of the classes below, except {client_only}
methods that test only [code inside Kafka's client](#what-kafkas-client-does-by-itself).

`python -m tests.conformance` writes this page from [tests/conformance](../tests/conformance). It fails if a
behaviour has no test, if a test does not exist, or if a method of Kafka's is missing. [testing.md](testing.md)
describes the tiers of tests; [compatibility.md](compatibility.md) lists APIs, clients and brokers.
"""
CLIENT_ONLY = "What Kafka's client does by itself"
CLIENT_ONLY_TEXT = """Kafka's client decides these before it sends a request or after it received the response.
The gateway takes no part in them, so no test of this project can fail.
[compatibility.md](compatibility.md#clients-and-tools) lists the clients that are tested unchanged.
"""


def render(found: Behaviours) -> str:
    """Return the page."""
    lines = [*_introduction(found), *_kafka_classes(found.kafka_tests)]
    for area in found.areas:
        lines += _area(area)
    return "\n".join([*lines, *_client_only(found), ""])


def _introduction(found: Behaviours) -> Iterator[str]:
    behaviours = [line for area in found.areas for line in area.behaviours]
    differing = sum(bool(line.differs) for line in behaviours)
    yield INTRODUCTION.format(
        behaviours=len(behaviours),
        same=len(behaviours) - differing,
        differing=differing,
        methods=sum(len(tests.methods) for tests in found.kafka_tests),
        client_only=sum(len(methods) for _, methods in found.client_only),
    )
    yield from (f"- [{title}](#{_anchor(title)})" for title in _titles(found))
    yield ""


def _titles(found: Behaviours) -> Iterator[str]:
    yield "Kafka's test classes"
    yield from (area.title for area in found.areas)
    yield CLIENT_ONLY


def _anchor(title: str) -> str:
    kept = (letter for letter in title.lower() if letter.isalnum() or letter in "- ")
    return "".join(kept).replace(" ", "-")


def _kafka_classes(kafka_tests: tuple[KafkaTests, ...]) -> Iterator[str]:
    yield "## Kafka's test classes"
    yield ""
    yield "| class | methods about share groups |"
    yield "| --- | --- |"
    for tests in kafka_tests:
        yield f"| [{tests.name}]({KAFKA}{tests.source}) | {len(tests.methods)} |"
    yield ""


def _area(area: Area) -> Iterator[str]:
    yield f"## {area.title}"
    yield ""
    yield "| behaviour | required by | proved by |"
    yield "| --- | --- | --- |"
    for line in area.behaviours:
        yield f"| {_text(line)} | {'<br>'.join(_sources(line))} | {'<br>'.join(map(_test, line.tests))} |"
    yield ""


def _text(line: Behaviour) -> str:
    if not line.differs:
        return line.says
    return f"{line.says}<br>**Differs:** {line.differs}<br>**Reason:** {line.because}"


def _sources(line: Behaviour) -> Iterator[str]:
    yield from (f"KIP-{kip}" for kip in line.kips)
    yield from (f"`{method}`" for method in line.kafka)


def _test(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}]({os.path.relpath(TESTS / path, PAGE.parent)})"


def _client_only(found: Behaviours) -> Iterator[str]:
    yield f"## {CLIENT_ONLY}"
    yield ""
    yield CLIENT_ONLY_TEXT
    yield "| behaviour | Kafka's tests |"
    yield "| --- | --- |"
    for says, methods in found.client_only:
        yield f"| {says} | {'<br>'.join(f'`{method}`' for method in methods)} |"
