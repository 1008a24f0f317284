"""Groups the tests that share a job or a Spark session: pytest-xdist (`--dist=loadscope`) runs them in one process.

Therefore a run starts two shared jobs and two Spark sessions: `test_share_consumer` needs a job and a session.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[1]
#: Annotated parameters that request the shared job, directly or through another fixture.
_JOB = re.compile(
    r"\b(share_group_job: ShareGroupJobRun|served: Served|new_client_group: NewGroup|admin: ShareGroupAdmin)"
)


class SharedServicesScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process all tests that share a service, or else those of a file."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.partition("::")[0])


@cache
def scope_of(path: str) -> str:
    """Return the scope of a test file: the name of a shared service, or else the path.

    The scheduler receives only the ids of tests, so this function searches the file's text. A missed file starts one
    more job or session; a wrong match makes the scope of a service longer.

    Args:
        path: relative to the repository.
    """
    if path.startswith("tests/spark/"):
        return "a Spark session"
    if not path.startswith("tests/integration/"):
        return path
    text = (_ROOT / path).read_text(encoding="utf-8")
    if _JOB.search(text) or ("gateway: GatewayProcess" in text and "def gateway(" not in text):
        return "a second job" if "/test_gateway_" in path else "a job"
    return "a Spark session" if "spark: SparkSession" in text else path
