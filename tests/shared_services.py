"""Which tests run in the same process of pytest-xdist (`--dist=loadscope`).

So `make test` starts two jobs and one Spark session, not one of each in every process.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: Files of tests/integration that use no job but their own.
_OWN_JOB = ("test_readme.py", "test_restart.py")


class SharedServicesScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process all tests that share a service, or else those of a file."""

    def _split_scope(self, nodeid: str) -> str:
        return services_of(nodeid.partition("::")[0])


def services_of(path: str) -> str:
    """The name of what a test file shares with others, or its path; `path` is relative to the repository."""
    folder, _, name = path.rpartition("/")
    if folder == "tests/spark":
        return "a Spark session"
    if folder == "tests/integration" and name not in _OWN_JOB:
        return "a job and its gateway" if name.startswith("test_gateway_") else "a job"
    return path
