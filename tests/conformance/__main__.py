"""Writes docs/conformance.md."""

from __future__ import annotations

from tests.conformance.behaviours import load
from tests.conformance.page import PAGE, render

PAGE.write_text(render(load()), encoding="utf-8")
