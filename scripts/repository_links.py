"""A hook of MkDocs: links from docs/ to files of the repository that are not part of the site.

The pages are also read in the repository, so they link to files such as ../README.md. In the site these links lead to
the repository (`repo_url`). Without `repo_url` they become plain text. A link to a file that does not exist is a
warning, which fails the build.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((\.\./[^)\s]+)\)")
logger = logging.getLogger("mkdocs.hooks.repository_links")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page's text with links that leave the site replaced."""
    docs = Path(config.docs_dir).resolve()
    folder = (docs / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        text, (path, _, anchor) = link[1], link[2].partition("#")
        target = (folder / path).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            logger.warning("%s links to %s, which does not exist", page.file.src_uri, link[2])
        if not config.repo_url:
            return text
        address = f"{config.repo_url.rstrip('/')}/blob/HEAD/{target.relative_to(docs.parent).as_posix()}"
        return f"[{text}]({address}{f'#{anchor}' if anchor else ''})"

    return _LINK.sub(replaced, markdown)
