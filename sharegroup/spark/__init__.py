"""Everything that uses Spark. The names that a Spark job needs to be a member of a share group are exported here.

    from sharegroup.spark import ShareConsumer, build_session

Exports are imported on first use, because Spark's Python workers import modules of this package and need nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharegroup.spark.session import build_session
    from sharegroup.spark.share_consumer import AcquiredBatch, DeltaSink, ShareConsumer, ShareConsumerQuery

__all__ = ["AcquiredBatch", "DeltaSink", "ShareConsumer", "ShareConsumerQuery", "build_session"]

_MODULES = {"build_session": "sharegroup.spark.session"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "sharegroup.spark.share_consumer")), name)
