"""The job is killed at each commit step of a workload, and ends up with the tables of one never killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.workload import PARTITIONS, RECORDS, Workload

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic


class Kill(NamedTuple):
    """The query, and the commit step after which the job dies (0: before step 1); whether its checkpoint goes first.

    Step 5 is Spark's own commit: `kill_after_commit` comes from outside.
    """

    query: str
    commit_step: int
    is_forgotten: bool = False


#: Where the job dies while it works on a step of the workload.
KEPT = {
    "acknowledge": Kill("share_partition", 2),
    "redeliver": Kill("share_partition", 3),
    "unacquire": Kill("share_partition", 4),
    "leave and join": Kill("group_coordinator", 3),
    "accept": Kill("share_partition", 1),
    "drain": Kill("share_partition", 0),
}
#: Without its checkpoint, a job that died before step 2 knows nothing of the batch: before or after step 1 is the same.
FORGOTTEN = {
    **{step: kill._replace(is_forgotten=True) for step, kill in KEPT.items() if kill.commit_step > 0},
    "leave and join": Kill("group_coordinator", 2, is_forgotten=True),
}
#: Half of both, for every run of the tests.
SOME = {**KEPT, **{step: FORGOTTEN[step] for step in ("acknowledge", "unacquire", "leave and join")}}


def kill_after_commit(job: ShareGroupJobRun) -> None:
    """SIGKILL after step 5 of everything that was answered."""
    for query in ("share_partition", "group_coordinator"):
        while not job.is_committed(query, job.next_batch(query) - 1):
            assert job.process.exit_code is None
    job.process.kill()


def kill_on(job: ShareGroupJobRun, kill: Kill) -> None:
    """Start the job, to die on the requests that were sent while it was down."""
    if kill.is_forgotten:
        job.remove_checkpoint()
    job.start(f"{kill.query}:{kill.commit_step}:{job.next_batch(kill.query)}")
    assert job.process.wait() != 0
    assert "FENCED" not in job.log
    assert "StaleCheckpoint" not in job.log


def check_kills(
    name: str,
    kills: Mapping[str, Kill],
    kafka: EmbeddedKafka,
    share_group_job: ShareGroupJobRun,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    """Run the workload, killed so; `name` is for topics."""
    topic, kind = new_topic(PARTITIONS, RECORDS), "all_at_once"
    never_killed = Workload(share_group_job.client(), share_group_job.new_group(kind), topic)
    never_killed.set_up()
    for step in never_killed.steps:
        never_killed.send(step)
        never_killed.await_step()

    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix=f"crash-{name}-", master="local[1]") as job:
        job.start()
        job.await_running()
        killed = Workload(job.client(), job.new_group(kind), new_topic(PARTITIONS, RECORDS))
        killed.set_up()
        kill_after_commit(job)
        for step in killed.steps:
            killed.send(step)
            if (kill := kills.get(step)) is not None:
                kill_on(job, kill)
        job.start()

        assert killed.answers() == never_killed.answers()
        assert killed.final_tables(job.tables_path) == never_killed.final_tables(share_group_job.tables_path)
