"""A process that has no use for pandas does not load it.

pyarrow looks for pandas at its first array, wherever it is installed: that is 40 MB and most of a second of each
gateway. It does without where there is none.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """It is not there."""
        if fullname == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=fullname)


def do_without_pandas() -> None:
    """From here on `import pandas` is an ImportError, unless it is loaded already."""
    sys.meta_path.insert(0, _NoPandas())
