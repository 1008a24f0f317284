"""For half an hour, the job, a gateway and a broker are killed or paused in turn, and no record is lost.

Members of each kind read a topic that is written all the time, with reservations on. A task of the job that cannot
reach the leader of a request topic for 8 s fails, and its query restarts. `CHAOS_MINUTES` sets another time, and
`CHAOS_SEED` another order of faults.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest

from tests.benchmarks.process_tree import ProcessTree
from tests.harness.share_group_job import QUERY_FAILED
from tests.integration.loaded_cluster import LoadedCluster, await_in_sync, loaded_cluster
from tests.integration.metric_scrapes import Scrape
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

MINUTES = float(os.environ.get("CHAOS_MINUTES", "30"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
#: A fault lasts until at most so many records have been appended meanwhile: about 15 s, and longer if appends wait for
#: another leader. Locks last 30 s and sessions 45 s.
MOST_RECORDS = 900

pytestmark = [pytest.mark.long, pytest.mark.timeout(60 * MINUTES + 1_800)]


class Fault(NamedTuple):
    """What happens to which process. `active` lasts as long as its block."""

    name: str
    active: Callable[[], AbstractContextManager[None]]


class Running(Protocol):
    """A process that runs."""

    @property
    def pid(self) -> int: ...


@contextmanager
def killed(kill: Callable[[], None], start: Callable[[], object]) -> Iterator[None]:
    kill()
    yield
    start()


def faults(loaded: LoadedCluster, randomness: random.Random) -> list[Fault]:
    """Each kind of process is killed once and paused once, by turns."""
    gateway, broker = randomness.choice(loaded.gateways), randomness.choice(loaded.cluster.brokers)
    number = broker.node_id

    def paused(process: Callable[[], Running]) -> Callable[[], AbstractContextManager[None]]:
        return lambda: ProcessTree(process().pid).held()

    def start_job() -> None:
        loaded.job.start()
        loaded.job.await_running()

    kills = [
        Fault("the job is killed", lambda: killed(lambda: loaded.job.process.kill(), start_job)),
        Fault("a gateway is killed", lambda: killed(gateway.kill, gateway.start)),
        Fault(f"broker {number} is killed", lambda: killed(broker.kill, broker.start)),
    ]
    pauses = [
        Fault("the job is paused", paused(lambda: loaded.job.process)),
        Fault("a gateway is paused", paused(lambda: gateway)),
        Fault(f"broker {number} is paused", paused(lambda: broker)),
    ]
    found = [randomness.sample(pair, 2) for pair in zip(kills, pauses, strict=True)]
    return [first for first, _ in found] + [second for _, second in found]


def test_processes_that_are_killed_and_paused_lose_no_record(spark: SparkSession, tmp_path: Path) -> None:
    """After each six faults every record was finished once by each group, and none came after its acceptance."""
    randomness = random.Random(SEED)
    with loaded_cluster(spark, tmp_path) as loaded:
        begin, number = time.monotonic(), 0
        while time.monotonic() < begin + 60 * MINUTES:
            with loaded.load.writing(may_queries_restart=True):
                await_reserved_deliveries(loaded)
                for fault in faults(loaded, randomness):
                    number, records = number + 1, randomness.randint(0, MOST_RECORDS)
                    with fault.active():
                        began = time.monotonic()
                        loaded.load.await_written(records)
                    restored = time.monotonic()
                    await_in_sync(loaded.cluster)
                    loaded.load.await_deliveries()
                    took = f"all groups went on after another {time.monotonic() - restored:.1f} s"
                    print(f"fault {number}: {fault.name} for {restored - began:.1f} s; {took}", flush=True)
            restarts = loaded.job.log_path.read_text(errors="replace").count(QUERY_FAILED)
            finished = f"{loaded.load.written} records, all finished once by each group"
            print(f"after {number} faults: {finished}; queries restarted {restarts} times", flush=True)


def await_reserved_deliveries(loaded: LoadedCluster) -> None:
    """Wait until a gateway has delivered records that it had reserved. All members may be at one of the two."""
    name = "sharegroup_gateway_acquired_records_total"

    def deliver() -> bool:
        return any(Scrape(port).value(name, way="reserved") > 0 for port in loaded.metrics_ports)

    wait_until(deliver, "a gateway delivers reserved records", PATIENCE_S)
