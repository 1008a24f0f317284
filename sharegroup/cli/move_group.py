"""Moving a group to another cell. The command line itself does not know the job's engine, which a move does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def run_move(config: Path, group_id: str, source_cell: str) -> NoReturn:
    """Become the move: this process goes on as `sharegroup.commit.move_command`."""
    arguments = ["--config", str(config), "--group", group_id, "--from", source_cell]
    os.execv(sys.executable, [sys.executable, "-m", "sharegroup.commit.move_command", *arguments])
