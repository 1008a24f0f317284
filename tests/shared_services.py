"""Which tests run in the same process of pytest-xdist (`--dist=loadscope`): those that share a job or a Spark session.

So a run starts two jobs and one Spark session, not one of each in every process.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[1]
#: Parameters of tests and fixtures by which a file uses the shared job.
_JOB = re.compile(
    r"\b(share_group_job: ShareGroupJobRun|served: Served|new_client_group: NewGroup|admin: ShareGroupAdmin)"
)


class SharedServicesScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process all tests that share a service, or else those of a file."""

    def _split_scope(self, nodeid: str) -> str:
        return services_of(nodeid.partition("::")[0])


@cache
def services_of(path: str) -> str:
    """The name of what a test file shares with others, or its path; `path` is relative to the repository.

    The process that distributes the tests does not collect them, so the text of the file has to tell. A wrong guess
    costs only the start of one more job or session.
    """
    text = (_ROOT / path).read_text(encoding="utf-8")
    if path.startswith("tests/spark/"):
        return "a Spark session"
    if _JOB.search(text) or ("gateway: GatewayProcess" in text and "def gateway(" not in text):
        return "a second job" if "/test_gateway_" in path else "a job"
    return "a Spark session" if "spark: SparkSession" in text else path
