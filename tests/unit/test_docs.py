"""The documentation points at what is there: its links, and the names that its tables find in the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages whose tables say where something is, and how many places they name at the least.
TABLES = {"docs/rules.md": 100, "docs/glossary.md": 60, "docs/python-client.md": 15}

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A link to a file of code, and the names in it that follow.
_PLACE = re.compile(r"\]\(([^)\s]+\.py)\)((?:,?\s`[A-Za-z_.]+`)*)")


@cache
def text_of(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """What a link may name after the page: its headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def names(path: Path) -> set[str]:
    """What a module defines: functions, classes and constants, and what is in its classes."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= _defined(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in _defined(inner)}
    return found


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_each_link_leads_somewhere(page: Path) -> None:
    links = _LINK.findall(text_of(page))
    assert links, "a page without a link is an island"
    for link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", TABLES)
def test_each_name_is_in_the_file_that_is_named(page: str) -> None:
    source = ROOT / page
    places = _PLACE.findall(text_of(source))
    assert len(places) >= TABLES[page]
    for path, said in places:
        for name in re.findall("`([^`]+)`", said):
            assert name in names((source.parent / path).resolve()), f"{path} has no {name}"


def test_each_page_is_reached_from_the_first_one() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [
                (page.parent / link.partition("#")[0]).resolve()
                for link in _LINK.findall(text_of(page))
                if not link.startswith(("https://", "#"))
            ]
    assert set(PAGES) <= reached
