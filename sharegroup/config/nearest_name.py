"""A hint for errors about unknown names: the known name that was probably intended."""

import difflib
from collections.abc import Collection


def nearest_hint(name: str, known: Collection[str]) -> str:
    """Return "; the nearest known name is ...", or an empty text if no name in `known` is similar to `name`."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; the nearest known name is {close[0]}" if close else ""
