"""Assignors by their names in `group.share.assignors`, and assignors of users: classes by their dotted names.

A class of a user is not trusted with the job: its exception ends no query, and what it assigns that cannot be read is
left out.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Mapping

from sharegroup.core.group_coordinator.assignors.all_assignor import AllAssignor
from sharegroup.core.group_coordinator.assignors.assignor import (
    GroupAssignment,
    GroupSpec,
    ShareGroupPartitionAssignor,
    SubscribedTopicDescriber,
)
from sharegroup.core.group_coordinator.assignors.simple_assignor import SimpleAssignor
from sharegroup.errors import InvalidConfigError

logger = logging.getLogger(__name__)

#: Each by the name that `group.share.assignors` and `share.assignor` have for it.
BUILT_IN: Mapping[str, ShareGroupPartitionAssignor] = {"simple": SimpleAssignor(), "all": AllAssignor()}


@functools.cache
def assignor_of(name: str) -> ShareGroupPartitionAssignor:
    """Return the assignor of a name: one that is part of this project, or an object of the class that is named.

    Raises InvalidConfigError where there is no such class, or it cannot be an assignor.
    """
    return BUILT_IN.get(name) or AssignorClass(name, _object_of(name))


class AssignorClass:
    """A `ShareGroupPartitionAssignor` that asks one of a user. Where that one raises, `simple` assigns."""

    def __init__(self, name: str, assignor: ShareGroupPartitionAssignor) -> None:
        self._name, self._assignor = name, assignor

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """What the user's assignor gives of what is there: partitions that can be assigned, of subscribed topics."""
        try:
            given = self._assignor.assign(group, topics)
            return {
                member_id: {
                    topic_id: partitions
                    for topic_id in member.subscribed_topic_ids
                    if (partitions := _there(topics, topic_id, given.get(member_id, {}).get(topic_id, ())))
                }
                for member_id, member in group.members.items()
            }
        except Exception:  # whatever it is, other groups go on
            logger.exception("assignor %s failed; simple assigns in its place", self._name)
            return BUILT_IN["simple"].assign(group, topics)


def _there(topics: SubscribedTopicDescriber, topic_id: str, partitions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(partitions).intersection(topics.assignable_partitions(topic_id))))


def _object_of(name: str) -> ShareGroupPartitionAssignor:
    module, _, kind = name.rpartition(".")
    try:
        found: ShareGroupPartitionAssignor = getattr(importlib.import_module(module), kind)()
    except Exception as error:  # a module may raise anything when it is imported
        raise _no_assignor(name, f"{type(error).__name__}: {error}") from error
    if not callable(getattr(found, "assign", None)):
        raise _no_assignor(name, "it has no method assign")
    return found


def _no_assignor(name: str, reason: str) -> InvalidConfigError:
    return InvalidConfigError("group.share.assignors", [f"Class {name} is not an assignor here: {reason}"])
