"""Write the generated reference pages."""

from __future__ import annotations

from tests.reference.pages import pages

for path, text in pages().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
