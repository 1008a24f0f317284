"""The documentation builds as a site, and a dead link fails the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    # Not with --quiet, which leaves warnings out of the count of --strict.
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "reference" / "cli.html").is_file()


def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    alive = ["[here](#page)", "[a file of the repository](../README.md#anchor)"]
    dead = ["[no page](no_page.md)", "[no anchor](index.md#no_anchor)", "[no file](../no_file.py)"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("\n\n".join(["# Page", *alive, *dead]))
    (tmp_path / "README.md").touch()
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {os.path.relpath(ROOT / 'mkdocs.yml', tmp_path)}\n"
        f"docs_dir: docs\nnav: [index.md]\nhooks: [{ROOT / 'scripts' / 'repository_links.py'}]\n"
    )
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    warnings = [line for line in built.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == 3, built.stderr
    assert all(sum(name in line for line in warnings) == 1 for name in ("no_page", "no_anchor", "no_file"))
