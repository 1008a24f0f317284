"""Killed at any commit step, the job goes on from its checkpoint, or from the tables alone where that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.kills import FORGOTTEN, KEPT, SOME, Kill, check_kills

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("some", SOME),
        pytest.param("kept", KEPT, marks=pytest.mark.long),
        pytest.param("forgotten", FORGOTTEN, marks=pytest.mark.long),
    ],
)
def test_a_job_killed_at_each_commit_step_ends_with_the_tables_of_one_never_killed(
    name: str,
    kills: Mapping[str, Kill],
    kafka: EmbeddedKafka,
    share_group_job: ShareGroupJobRun,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    check_kills(name, kills, kafka, share_group_job, new_topic, tmp_path)
