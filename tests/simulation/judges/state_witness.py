"""The comparison of the state of the share_partition query's operator with the state that its table contains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig
from sharegroup.job.knowledge.known_configs import KnownConfigs
from sharegroup.storage.reading.state_table import fold_states
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import StateBatch
from tests.simulation.job import job_sources
from tests.simulation.job.job_adapter import NAMES, SHARE_PARTITION
from tests.simulation.job.simulated_job import SimulatedJob
from tests.simulation.judges.judge import ConfigChange
from tests.simulation.members import table_adapter
from tests.simulation.world import World

RULE = "views agree"
#: The time after the response by which a change has reached every place.
_SETTLED_MS = 10_000


def compare_operator_states(world: World, job: SimulatedJob) -> None:
    """Report each difference as a violation. While a batch runs the two differ, so nothing is compared.

    The snapshot epochs must be the same too, because records with another one than the newest do not count.
    """
    if not job.queries[SHARE_PARTITION].micro_batches.is_between_batches:
        return
    states = fold_states(world.tables.arrow(SHARE_GROUP_STATE))
    for key, header, window in table_adapter.operator_states(job):
        state = states.get(table_adapter.to_state_key(key))
        if state is None:
            world.judge.violate(RULE, "the operator has a state, the table has none", key.named())
            continue
        stored = _described(state.header.start_offset, state.header, state.state_batches)
        own = _described(window.start_offset, header, window.state_batches())
        if stored != own:
            world.judge.violate(RULE, f"operator {own}, share_group_state {stored}", key.named())


def compare_configs(world: World, job: SimulatedJob) -> None:
    """Report each share-partition that does not use its group's config of the table.

    Nothing is compared while a change is or may be in progress, nor for groups that are being deleted.
    """
    queries = [job.queries[name].micro_batches for name in NAMES]
    if any(query.has_unread or not query.is_between_batches for query in queries):
        return
    known = KnownConfigs()
    known.replace(job_sources.Configs(job.config, world.tables).in_force(0, fresh=True), ())
    for key, config in table_adapter.operator_configs(job):
        changes = world.judge.configs.get(key.group_id, ())
        is_settled = all(change.ok is not None and _is_old(world, change) for change in changes)
        if is_settled and config != PartitionConfig.from_group_config(known.get(key.group_id)):
            text = f"{config}, the table says {PartitionConfig.from_group_config(known.get(key.group_id))}"
            world.judge.violate("a config that was answered is in force", text, key.named())


def _is_old(world: World, change: ConfigChange) -> bool:
    return change.answered_ms is not None and world.clock.now_ms - change.answered_ms > _SETTLED_MS


def _described(start_offset: int, header: Any, batches: Iterable[StateBatch]) -> tuple[Any, ...]:
    return start_offset, header.state_epoch, header.snapshot_epoch, [tuple(batch) for batch in batches]
