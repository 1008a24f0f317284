"""Prevents the import of pandas in processes that do not use it.

If pandas is installed, pyarrow imports it when the first array is created. This would cost each gateway 40 MB and most
of a second. pyarrow also works without pandas.
"""

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas. Return None for other modules, which Python then finds as usual."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is disabled in this process", name=fullname)


def disable_pandas() -> None:
    """Make `import pandas` fail from now on, so that pyarrow does not load pandas.

    If pandas is already imported, this has no effect.
    """
    sys.meta_path.insert(0, _NoPandas())
