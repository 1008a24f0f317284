"""Lookup of assignors by the names in `group.share.assignors`, including users' classes by their dotted names.

A faulty class must not stop the job. Exceptions of its method `assign` are therefore caught, and invalid parts of its
assignments are ignored.
"""

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
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: The built-in assignors by their names in `group.share.assignors` and `share.assignor`.
BUILT_IN: Mapping[str, ShareGroupPartitionAssignor] = {"simple": SimpleAssignor(), "all": AllAssignor()}


@functools.cache
def get_assignor(name: str) -> ShareGroupPartitionAssignor:
    """Return the assignor `name`: a built-in assignor, or an instance of the class with this dotted name.

    Each class has one instance, which is created by the first call. Raises InvalidConfigError if the class cannot be
    imported or created, or has no method `assign`.
    """
    return BUILT_IN.get(name) or AssignorClass(name, _create(name))


class AssignorClass:
    """Wrapper of a user's assignor. If the user's `assign` raises, the assignor `simple` is used instead."""

    def __init__(self, name: str, assignor: ShareGroupPartitionAssignor) -> None:
        self._name, self._assignor = name, assignor

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Return the assignment of the user's class.

        Partitions that are not assignable, or whose topic the member does not subscribe to, are left out.
        """
        try:
            given = self._assignor.assign(group, topics)
            return {
                member_id: {
                    topic_id: partitions
                    for topic_id in member.subscribed_topic_ids
                    if (partitions := _assignable(topics, topic_id, given.get(member_id, {}).get(topic_id, ())))
                }
                for member_id, member in group.members.items()
            }
        except Exception:  # of any kind, so that other groups are not affected
            logger.exception(
                "assignor %(resource)s failed; the assignor 'simple' is used instead", LogFields(resource=self._name)
            )
            return BUILT_IN["simple"].assign(group, topics)


def _assignable(topics: SubscribedTopicDescriber, topic_id: str, partitions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(partitions).intersection(topics.assignable_partitions(topic_id))))


def _create(name: str) -> ShareGroupPartitionAssignor:
    module, _, kind = name.rpartition(".")
    try:
        found: ShareGroupPartitionAssignor = getattr(importlib.import_module(module), kind)()
    except Exception as error:  # a module may raise anything when it is imported
        raise _no_assignor(name, f"{type(error).__name__}: {error}") from error
    if not callable(getattr(found, "assign", None)):
        raise _no_assignor(name, "it has no method assign")
    return found


def _no_assignor(name: str, reason: str) -> InvalidConfigError:
    return InvalidConfigError("group.share.assignors", [f"class {name} cannot be used as an assignor: {reason}"])
