"""The components of a run, created from a seed: the clock, Kafka, the tables, the configuration, and the faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random

from sharegroup.config import Config
from sharegroup.config.loading import parse_config
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.checkpoint_folder import CheckpointFolder
from tests.simulation.job.simulated_tables import SimulatedTables
from tests.simulation.judges.judge import Judge
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

#: All faults and changes by name; a seed has some of them.
FAULTS = (
    "crash",  # the job dies, at a commit step or anywhere
    "new_checkpoint",  # it is started without its checkpoint
    "old_checkpoint",  # it is started with a copy of an earlier checkpoint
    "two_jobs",  # a second job is started beside it
    "job_away",  # it is not started for minutes
    "lost_commit",  # a store loses the response to a commit
    "foreign_write",  # another writer writes to a table
    "upkeep",  # tables are compacted
    "bad_network",  # rows are lost, delayed or duplicated
    "leader_away",  # partitions have no leader for a while
    "slow_metadata",  # clients receive outdated metadata
    "retention",  # the beginning of logs is deleted
    "topic_again",  # topics are deleted and created again
    "topic_grows",
    "transactions",
    "alter_configs",
    "alter_offsets",
    "delete_offsets",
    "delete_group",
    "reshard",  # the job's shard count changes between two starts
    "slow_members",
    "dying_members",
    "leaving_members",
    "gateway_killed",
    "gateway_paused",
    "gateway_clock",
    "gateway_moves",
    "static_members",  # some members have names, and their processes are restarted
    "silent_leader",  # a broker does not respond for a while, because it is paused or cut off
    "requests_trimmed",  # retention deletes the requests of a batch that is repeated
    "snapshot_rules",  # the job's snapshot configuration changes between two starts
    "power_loss",  # the job's machine loses unsynced data: the newest files of tables and checkpoints are torn
    "lost_commits",  # tables are restored without their newest batch, behind a valid checkpoint
    "full_disk",  # the tables' disk rejects writes for a while
    "job_topics_grow",  # the job's own topics get more partitions
    "job_transactions",  # another producer writes to the request topics in transactions
    "unclean_election",  # a broker without the last records of a log becomes its leader
    "job_clock",  # the job's wall clock jumps, and its steady clock drifts
    "broker_clocks",  # brokers' clocks differ
    "paused_job",  # it is suspended, another one acquires the lead, and it continues
    "responses_trimmed",  # retention deletes responses before they are read
)

#: The time limit for the delivery of everything after the last fault. A job that is down restarts within five minutes,
#: dead static members are detected five minutes later, and an offset without a record may need all of its locks to
#: expire.
CALM_MS = 1_500_000

#: How far a broker's clock is behind the true time, in ms. Gateways respond to acknowledgements early only if a lock
#: lasts for longer than that (gateway.ack.margin.ms).
_BEHIND_MS = (0, 20, 300, 1_500)
#: Another property that a run's brokers may have.
NO_TOPIC_IDS = "no_topic_ids"  # their release has no topic ids
#: A property of a run's gateways: they reserve records for members that wait.
RESERVATIONS = "reservations"
#: The group that releases half of its records, in runs with reservations.
RELEASING_GROUP = "releasing"

GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES = (
    "__share_group_requests", "__share_partition_requests", "__share_group_responses"
)  # fmt: skip
JOB_TOPICS = (GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES)


@dataclass
class World:
    """The shared state of a run. `faults` are those of this run; they end at `calm_ms`, and the run at `end_ms`."""

    seed: int
    hours: float
    faults: frozenset[str]
    clock: Scheduler
    trace: Trace
    kafka: SimulatedKafka
    tables: SimulatedTables
    judge: Judge
    weather: Weather
    config: Config
    checkpoints: dict[str, CheckpointFolder] = field(default_factory=dict)
    #: The number of restarts of the job's machine.
    boot: int = 0
    _streams: dict[str, Random] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """The end of the run."""
        return self.calm_ms + CALM_MS

    @property
    def calm_ms(self) -> int:
        """The end of the last fault; from then on everything must be delivered in time."""
        return self.clock.start_ms + max(60_000, round(self.hours * 3_600_000) - 600_000)

    def session_timeout_ms(self, group_id: str, is_static: bool = False) -> int:
        """Return a group's session timeout, which no administrator changes."""
        config = self.config.group_config(group_id)
        return config.static_session_timeout_ms if is_static else config.session_timeout_ms

    def longest_lock_ms(self, group_id: str) -> int:
        """Return the longest possible lock of a group, whatever its administrator has requested so far."""
        config = self.config.group_config(group_id)
        static_ms = config.static_record_lock_duration_ms if config.client_id_as_instance_id else 0
        return max(static_ms, *self._lock_durations_ms(group_id))

    def shortest_lock_ms(self, group_id: str) -> int:
        """Return the shortest possible lock of a group, whatever its administrator has requested so far."""
        return min(self._lock_durations_ms(group_id))

    def _lock_durations_ms(self, group_id: str) -> list[int]:
        default = str(self.config.group_config(group_id).record_lock_duration_ms)
        now_ms = self.clock.now_ms
        return [
            int(value)
            for value in self.judge.possible_values(group_id, "share.record.lock.duration.ms", default, 0, now_ms)
        ]

    def random(self, name: str) -> Random:
        """Return a separate source of chance, so that another actor does not change the others."""
        if name not in self._streams:
            self._streams[name] = Random(f"{self.seed}/{name}")
        return self._streams[name]

    def has(self, fault: str) -> bool:
        """Return whether this fault can happen in this run now."""
        return fault in self.faults and self.clock.now_ms < self.calm_ms


def faults_of(seed: int) -> frozenset[str]:
    """Return the faults of a seed. Some have all, most have a third, because many faults hide the effects of few.

    One in five has brokers without topic ids, and half of them have reservations.
    """
    random = Random(f"{seed}/faults")
    share = random.choice((0.15, 0.3, 0.3, 0.5, 1.0))
    brokers = {NO_TOPIC_IDS} if Random(f"{seed}/brokers").random() < 0.2 else set()
    gateways = {RESERVATIONS} if Random(f"{seed}/gateways").random() < 0.5 else set()
    return frozenset(fault for fault in FAULTS if random.random() < share) | brokers | gateways


def make_world(
    seed: int,
    hours: float = 1.0,
    faults: Collection[str] | None = None,
    keep_trace: bool = False,
    config: Mapping[str, object] | None = None,
) -> World:
    """Return a world in which only the job's topics have been created."""
    chosen = faults_of(seed) if faults is None else frozenset(faults)
    clock = Scheduler(seed)
    trace = Trace(clock, keep_trace)
    kafka = SimulatedKafka(clock, trace, has_topic_ids=NO_TOPIC_IDS not in chosen)
    kafka.may_grow = "job_topics_grow" in chosen
    for topic in JOB_TOPICS:
        kafka.create_topic(topic, 2)
    if "broker_clocks" in chosen:
        behind = Random(f"{seed}/broker clocks")
        kafka.behind_ms = {node_id: behind.choice(_BEHIND_MS) for node_id in kafka.brokers}
        kafka.timed = JOB_TOPICS
    tables = SimulatedTables()
    weather = Weather()
    if "bad_network" in chosen:
        weather = Weather(slow_chance=0.03, slow_ms=8_000, lost_request=0.01, lost_answer=0.02)
    job = parse_config(
        config or _config(Random(f"{seed}/config"), chosen),
        "the simulation's configuration",
    )
    judge = Judge(clock, trace, kafka)
    return World(seed, hours, chosen, clock, trace, kafka, tables, judge, weather, job)


def _config(random: Random, faults: Collection[str]) -> Mapping[str, object]:
    named = {"share.client.id.as.instance.id": True}
    groups = [*(f"group-{number}" for number in range(1, 10)), RELEASING_GROUP]
    return {
        "groups": dict.fromkeys(groups, named) if "static_members" in faults else {},
        "job": {
            "operator.shards": random.choice((1, 1, 2, 3)),
            "log.idle.poll.interval.ms": 10_000,
            "upkeep.interval.commits": random.choice((20, 50)),
            "request.topic.partitions": 2,
            "max.requests.per.batch": (batch_size := random.choice((5, 20_000, 20_000))),
        },
        "group": {
            # Sparse, because each heartbeat is a micro-batch.
            "group.share.heartbeat.interval.ms": 60_000,
            "group.share.max.heartbeat.interval.ms": 60_000,
            "group.share.session.timeout.ms": 180_000,
            "group.share.max.session.timeout.ms": 180_000,
            "group.share.record.lock.duration.ms": random.choice((15_000, 30_000)),
            "group.share.delivery.count.limit": random.choice((2, 3, 5)),
            "group.share.partition.max.record.locks": random.choice((100, 2_000)),
            "group.share.assignors": random.choice(("simple,all", "simple,all", "all,simple")),
            "group.share.assignment.interval.ms": random.choice((0, 1_000, 1_000, 15_000)),
        },
        "gateway": {
            "gateway.read.ahead.linger.ms": random.choice((0, 0, 1_000)),
            "gateway.reservations.enable": RESERVATIONS in faults,
            # Beyond a limit in docs/rows.md, an acknowledgement fails that was answered before the job has read it.
            "gateway.ack.margin.ms": 1_000_000 if _reads_late(batch_size, faults) else 5_000,
        },
    }


def _reads_late(batch_size: int, faults: Collection[str]) -> bool:
    """Return whether the job can read a row before one that was appended earlier to another request partition."""
    return "job_topics_grow" in faults and (batch_size == 5 or "job_transactions" in faults)
