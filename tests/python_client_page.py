"""The programs of docs/python-client.md."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs" / "python-client.md"
#: The program with tests of a handler; the others are run with brokers.
HANDLER_TESTS = 2


def page_programs() -> list[str]:
    """Return the programs in their order."""
    programs = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 3, "each program has a test"
    return programs
