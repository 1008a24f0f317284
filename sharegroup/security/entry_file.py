"""Reads YAML files that are lists of entries, such as access rights or quotas."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sharegroup.errors import InvalidConfigError

Entry = TypeVar("Entry", bound=BaseModel)


def read_entries(path: str, kind: type[Entry]) -> tuple[list[Entry], list[str]]:
    """Return (valid entries, a sentence for each problem of an invalid entry). `kind` is the class of an entry.

    Raises InvalidConfigError if the file cannot be read or is not a list.
    """
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidConfigError(path, [f"the file cannot be read: {error}"]) from error
    if not isinstance(entries, list):
        raise InvalidConfigError(path, ["the file must be a list of entries"])
    problems: list[str] = []
    return list(_parsed(entries, kind, problems)), problems


def _parsed(entries: list[object], kind: type[Entry], problems: list[str]) -> Iterator[Entry]:
    for number, entry in enumerate(entries, start=1):
        try:
            yield kind.model_validate(entry)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                where = ".".join(str(part) for part in detail["loc"])
                problems.append(f"entry {number}{': ' + where if where else ''}: {detail['msg']}")
