"""What spark-submit --conf says goes over the job's own settings of its session; the rest is the job's."""

from __future__ import annotations

from pathlib import Path

from sharegroup.testkit.submitted_job import SubmittedJob

GIVEN = {"spark.sql.shuffle.partitions": "3", "spark.sql.streaming.minBatchesToRetain": "77"}
OWN = {"spark.databricks.delta.snapshotPartitions": "1"}
SCRIPT = """
from sharegroup.config import parse_config
from sharegroup.spark.job.job_session import job_session

config = parse_config({"job": {"checkpoint.path": %r}}, "test")
spark = job_session(config)
for key in %r:
    print(f"setting {key}={spark.conf.get(key)}", flush=True)
"""


def test_what_spark_submit_was_told_goes_over_the_jobs_own_settings(tmp_path: Path) -> None:
    script = tmp_path / "settings_of_the_session.py"
    script.write_text(SCRIPT % (str(tmp_path / "checkpoint"), [*GIVEN, *OWN]))

    with SubmittedJob(str(script), [], tmp_path / "log.txt", conf=GIVEN) as job:
        assert job.wait() == 0

    log = (tmp_path / "log.txt").read_text()
    for key, value in (GIVEN | OWN).items():
        assert f"setting {key}={value}\n" in log
