"""A wrong configuration ends the job before Spark starts, with all that is wrong."""

from __future__ import annotations

from pathlib import Path

from tests.harness.submitted_job import SubmittedJob

WRONG = """
job:
  operator.shards: 0
  bootstrap.server: broker:9092
group:
  group.share.record.lock.duration.ms: soon
groups:
  orders:
    share.auto.offset.reset: yesterday
"""


def test_a_wrong_configuration_is_told_at_once_and_whole(tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text(WRONG)

    with SubmittedJob("jobs/run_share_group.py", ["--config", str(config)], tmp_path / "log.txt") as job:
        assert job.wait() == 1

    log = (tmp_path / "log.txt").read_text()
    assert "4 wrong configuration value(s)" in log
    for name in (
        "operator.shards",
        "bootstrap.server in section job; the nearest known name is bootstrap.servers",
        "group.share.record.lock.duration.ms",
        "share.auto.offset.reset",
    ):
        assert name in log
    assert "Traceback" not in log
    assert "Exception" not in log
