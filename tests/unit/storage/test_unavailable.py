"""Reading tables where no job has run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.storage import (
    TableMissingError,
    read_group,
    read_group_configs,
    read_groups,
    read_in_flight,
    read_share_group_offsets,
)


@pytest.mark.parametrize(
    "read",
    [
        read_groups,
        read_group_configs,
        read_in_flight,
        lambda path: read_group(path, "g"),
        lambda path: read_share_group_offsets(path, "g"),
    ],
)
def test_missing_tables_are_reported(tmp_path: Path, read: Callable[[str], object]) -> None:
    with pytest.raises(TableMissingError, match="no job has run on"):
        read(str(tmp_path / "nowhere"))
