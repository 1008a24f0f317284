"""Each notebook runs from top to bottom by itself and draws its plots."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from sharegroup.testing.ports import free_port
from tests.params import thorough

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
#: The first one starts a broker and Spark.
TO_RUN = [*thorough(NOTEBOOKS[0]), *NOTEBOOKS[1:]]


@pytest.mark.parametrize("path", TO_RUN, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    patience = {"timeout": 600, "startup_timeout": 600, "iopub_timeout": 600, "raise_on_iopub_timeout": True}
    ports = {f"{channel}_port": free_port() for channel in ("shell", "iopub", "stdin", "hb", "control")}
    config = Config(KernelManager={"cache_ports": False, **ports})
    NotebookClient(notebook, config=config, resources={"metadata": {"path": str(tmp_path)}}, **patience).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    plots = [output for output in outputs if "image/png" in output.get("data", {})]
    asked = [cell for cell in notebook.cells if "plt.show()" in cell.source]
    assert len(plots) == len(asked) > 0
    tables = [output for output in outputs if "text/html" in output.get("data", {})]
    assert all("<tbody>\n  </tbody>" not in table["data"]["text/html"] for table in tables), "a query found nothing"


def test_notebooks_are_found() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_contains_nothing_of_its_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(path.parents[1]) not in text
