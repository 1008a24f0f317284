"""What spark-submit --conf says goes over the job's own settings of its session; the rest is the job's."""

from __future__ import annotations

from pathlib import Path

from tests.harness.submitted_job import SubmittedJob

GIVEN = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.streaming.minBatchesToRetain": "77",
    "spark.hadoop.fs.s3a.endpoint": "http://given:1",
}
OWN = {"spark.databricks.delta.snapshotPartitions": "1"}
STORAGE_OPTIONS = {"AWS_ENDPOINT_URL": "http://file:1", "AWS_REGION": "eu-west-1", "fs.s3a.retry.limit": "9"}
HADOOP = {
    "fs.s3a.endpoint": "http://given:1",
    "fs.s3a.endpoint.region": "eu-west-1",
    "fs.s3a.retry.limit": "9",
    "fs.s3a.attempts.maximum": "2",
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
SCRIPT = """
from sharegroup.config import parse_config
from sharegroup.spark.job.job_session import job_session

config = parse_config({"job": {"checkpoint.path": %r, "tables.storage.options": %r}}, "test")
spark = job_session(config)
for key in %r:
    print(f"setting {key}={spark.conf.get(key)}", flush=True)
for key in %r:
    print(f"setting {key}={spark._jsc.hadoopConfiguration().get(key)}", flush=True)
"""


def test_what_spark_submit_was_told_goes_over_the_jobs_own_settings(tmp_path: Path) -> None:
    script = tmp_path / "settings_of_the_session.py"
    script.write_text(SCRIPT % (str(tmp_path / "checkpoint"), STORAGE_OPTIONS, [*GIVEN, *OWN], [*HADOOP]))

    with SubmittedJob(str(script), [], tmp_path / "log.txt", conf=GIVEN) as job:
        assert job.wait() == 0

    log = (tmp_path / "log.txt").read_text()
    for key, value in (GIVEN | OWN | HADOOP).items():
        assert f"setting {key}={value}\n" in log
