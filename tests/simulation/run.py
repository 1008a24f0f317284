"""One run: a world with all its processes, until its time is over and the final checks are done."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUPS
from tests.simulation.brokers.broker_faults import BrokerFaults
from tests.simulation.brokers.producers import Producers
from tests.simulation.gateway.careless_gateways import CarelessGateways
from tests.simulation.gateway.gateway_fleet import fleet_of
from tests.simulation.job.job_host import JobHost
from tests.simulation.job.job_sources import use_virtual_time
from tests.simulation.job.job_topic_faults import JobTopicFaults
from tests.simulation.judges.delivery_watch import DeliveryWatch
from tests.simulation.judges.fairness_watch import FairnessWatch
from tests.simulation.judges.judge import Violation
from tests.simulation.judges.last_judgement import judge_at_the_end
from tests.simulation.population import Population
from tests.simulation.spark.spark_fleet import SparkFleet
from tests.simulation.world import World, make_world


class Result(NamedTuple):
    """The outcome of a run. `digest` is the same for each run of a seed."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    deliveries: int
    batches: int
    starts: int
    wall_s: float
    trace: str


def run(seed: int, hours: float = 1.0, faults: Collection[str] | None = None, keep_trace: bool = False) -> Result:
    """Run a seed; `faults` replace those that it would have."""
    with _quiet():
        return _run(seed, hours, faults, keep_trace)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the project's log of the faults, and restore it afterwards."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _run(seed: int, hours: float, faults: Collection[str] | None, keep_trace: bool) -> Result:
    begin = time.perf_counter()
    world = make_world(seed, hours, faults, keep_trace)
    use_virtual_time(world.clock)
    world.trace.add("simulation", f"seed {seed}: {', '.join(sorted(world.faults))}")
    host, producers = JobHost(world), Producers(world)
    producers.start()
    host.start()
    BrokerFaults(world).start()
    JobTopicFaults(world).start()
    fleet = fleet_of(world)
    if fleet is not None:
        fleet.start()
    spark = SparkFleet(world)
    spark.start()
    population = Population(world, producers.topics, fleet, spark)
    population.start()
    DeliveryWatch(world, fleet).start()
    FairnessWatch(world, fleet).start()
    CarelessGateways(world).start()
    world.clock.run_until(world.end_ms)
    if fleet is not None:
        fleet.end()
    torn = world.tables.torn_tables()
    if torn:
        world.judge.violate("tables can be read", f"torn: {', '.join(torn)}")
    else:
        judge_at_the_end(world, host, [group.group_id for group in population.groups], producers.topics)
    return result(world, host, time.perf_counter() - begin)


def result(world: World, host: JobHost, wall_s: float) -> Result:
    """Return the outcome of a run that took `wall_s` seconds; the trace is about its first violation."""
    violations = tuple(world.judge.violations)
    about = violations[0].about if violations else ""
    first_tables = () if world.tables.torn_tables() else (SHARE_GROUP_STATE, SHARE_GROUPS)
    return Result(
        world.seed,
        violations,
        world.trace.digest,
        world.judge.deliveries,
        sum(map(world.tables.newest_version, first_tables)),
        host.starts,
        wall_s,
        world.trace.text(about),
    )
