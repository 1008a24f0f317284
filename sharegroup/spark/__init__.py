"""The code that uses Spark. This module exports the names that a Spark job needs to be a member of a share group.

    from sharegroup.spark import ShareConsumer, build_session

The exports are imported on first use. Spark's Python workers, which import other modules of this package, do not need
them.
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
