"""The commits of an upgrade of tables, counted, with something that happens right before one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from sharegroup.commit import table_upgrade
from tests.tables.job_tables import Died


class UpgradeCommits:
    """`count` is how many commits have been tried since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._at: tuple[int, Callable[[], object]] | None = None
        self._write = table_upgrade.write_deltalake
        monkeypatch.setattr(table_upgrade, "write_deltalake", self._commit)

    def before(self, number: int, action: Callable[[], object]) -> None:
        """Do something before the commit of that number, from 1 on."""
        self._at = number, action

    def _commit(self, *arguments: Any, **keywords: Any) -> None:
        self.count += 1
        if self._at is not None and self.count == self._at[0]:
            self._at[1]()
        self._write(*arguments, **keywords)


def die() -> NoReturn:
    """The process ends here."""
    raise Died
