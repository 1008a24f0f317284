"""Tables of another format version are rejected, and are not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.storage.rows import TableFormatError, open_table
from sharegroup.storage.schemas import ALL_TABLES, FORMAT_PROPERTY, SHARE_GROUPS, TableSpec
from sharegroup.storage.writing.delta_table import open_or_create


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_a_table_of_this_version_is_opened(tmp_path: Path, spec: TableSpec) -> None:
    open_or_create(str(tmp_path), spec)
    assert open_or_create(str(tmp_path), spec).version() == open_table(str(tmp_path), spec).version() == 0


@pytest.mark.parametrize("opened", [open_or_create, open_table])
def test_a_table_of_another_format_is_rejected(tmp_path: Path, opened: type[object]) -> None:
    table = open_or_create(str(tmp_path), SHARE_GROUPS)
    table.alter.set_table_properties({FORMAT_PROPERTY: "2"}, raise_if_not_exists=False)
    with pytest.raises(TableFormatError, match="share_groups has format 2, but this version reads format 1: run the"):
        opened(str(tmp_path), SHARE_GROUPS)
    table.update_incremental()
    assert table.version() == 1
