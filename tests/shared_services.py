"""Which tests run in the same process of pytest-xdist (`--dist=loadscope`).

So `make test` starts three jobs and one Spark session, not one of each in every process. Tests of one job run one after
the other, so the group of files that takes longest decides how long `make test` takes.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: Files of tests/integration that use no job but their own.
_OWN_JOB = ("test_readme.py", "test_restart.py")
#: Files of tests/integration that use a broker at most.
_NO_JOB = (
    "test_job_config.py",
    "test_job_settings.py",
    "test_log_poll.py",
    "test_message_schemas.py",
    "test_one_kind_of_group.py",
    "test_request_clock.py",
    "test_response_growth.py",
    "test_row_producer.py",
    "test_s3_tables.py",
)


class SharedServicesScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process all tests that share a service, or else those of a file."""

    def _split_scope(self, nodeid: str) -> str:
        return services_of(nodeid.partition("::")[0])


def services_of(path: str) -> str:
    """The name of what a test file shares with others, or its path; `path` is relative to the repository."""
    folder, _, name = path.rpartition("/")
    if folder == "tests/spark":
        return "a Spark session"
    if folder != "tests/integration" or name in _OWN_JOB:
        return path
    if name in _NO_JOB:
        return "a broker"
    if name.startswith("test_client_"):
        return "a job, its gateway and the Python client"
    return "a job and its gateway" if name.startswith("test_gateway_") else "a job"
