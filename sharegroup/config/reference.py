"""Generates the reference of all config keys. `sharegroup config` prints it, and docs/reference contains it."""

from collections.abc import Iterator, Mapping

from sharegroup.config.family import ConfigFamily, ConfigKey, text_of
from sharegroup.config.keys.group import JOB_KEYS, GroupOverrides
from sharegroup.config.loading import SECTIONS


def reference() -> str:
    """Return one Markdown table for each section of the file: key, default, allowed values and description."""
    return "\n".join(line for title, families in _sections() for line in _table(title, families))


def default_text(key: ConfigKey) -> str:
    """Return a key's default in YAML notation.

    If the default of a group's key is the value of a job-level key, return the name of the job-level key.
    """
    if key.default is None:
        return JOB_KEYS[key.name]
    if isinstance(key.default, Mapping):
        return "{}"
    return text_of(key.default) or '""'


def _sections() -> Iterator[tuple[str, tuple[type[ConfigFamily], ...]]]:
    yield from ((f"Section `{name}`", families) for name, families in SECTIONS.items())
    yield "Section `groups`, for each group", (GroupOverrides,)


def _table(title: str, families: tuple[type[ConfigFamily], ...]) -> Iterator[str]:
    yield from (f"### {title}", "", "| key | default | allowed | description |", "| --- | --- | --- | --- |")
    for key in (key for family in families for key in family.config_keys().values()):
        allowed = key.allowed.replace("|", "\\|")
        yield f"| `{key.name}` | `{default_text(key)}` | {allowed} | {key.doc} |"
    yield ""
