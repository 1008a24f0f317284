"""Whether the operator of the share_partition query goes on with the states that its table adds up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sharegroup.tables.schemas import SHARE_GROUP_STATE
from sharegroup.tables.state_table import folded_states
from sharegroup.testkit.simulation import table_adapter
from sharegroup.testkit.simulation.job_adapter import SHARE_PARTITION
from sharegroup.testkit.simulation.simulated_job import SimulatedJob
from sharegroup.testkit.simulation.world import World
from sharegroup.types import StateBatch

RULE = "views agree"


def compare_operator_states(world: World, job: SimulatedJob) -> None:
    """Report each difference as a violation. While a batch runs, the two differ, and nothing is compared.

    The snapshot epochs must be the same as well: of a record with another one than the newest, nothing counts.
    """
    if not job.queries[SHARE_PARTITION].micro_batches.is_between_batches:
        return
    states = folded_states(world.tables.arrow(SHARE_GROUP_STATE))
    for key, header, window in table_adapter.operator_states(job):
        state = states.get(table_adapter.to_state_key(key))
        if state is None:
            world.judge.violate(RULE, "the operator has a state, the table has none", key.named())
            continue
        stored = _described(state.header.start_offset, state.header, state.state_batches)
        own = _described(window.start_offset, header, window.state_batches())
        if stored != own:
            world.judge.violate(RULE, f"operator {own}, share_group_state {stored}", key.named())


def _described(start_offset: int, header: Any, batches: Iterable[StateBatch]) -> tuple[Any, ...]:
    return start_offset, header.state_epoch, header.snapshot_epoch, [tuple(batch) for batch in batches]
