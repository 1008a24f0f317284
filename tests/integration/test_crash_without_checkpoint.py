"""Killed at any commit step and its checkpoint deleted, the job comes back from the tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.kills import check_kills

if TYPE_CHECKING:
    from sharegroup.testkit.embedded_kafka import EmbeddedKafka
    from sharegroup.testkit.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic


@pytest.mark.timeout(900)
def test_a_job_that_lost_its_checkpoint_each_time_ends_with_the_tables_of_one_never_killed(
    kafka: EmbeddedKafka, share_group_job: ShareGroupJobRun, new_topic: NewTopic, tmp_path: Path
) -> None:
    check_kills("deleted", kafka, share_group_job, new_topic, tmp_path)
