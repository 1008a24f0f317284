"""A group's name, before a new member joins: in Kafka a name is one group's, whatever its kind."""

from __future__ import annotations

import logging
from typing import Any

from kafka.errors import GroupIdNotFoundError, KafkaError

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.client_settings import ClientSettings

logger = logging.getLogger(__name__)

#: How long the brokers are asked. The answer is a help and not a lock: without one the member joins.
_TIMEOUT_MS = 10_000
_SHARE = "share"


def refuse_other_kind(kafka: ClientSettings, group_id: str) -> None:
    """Raise GroupIdNotFoundError, as Kafka does, if the brokers have a group of this name that is no share group.

    `kafka` are kafka-python's settings. A gateway lists share groups too; where both kinds exist, both are served.
    """
    settings: dict[str, Any] = dict(kafka)
    try:
        with ShareGroupAdmin(timeout_ms=_TIMEOUT_MS, **settings) as admin:
            kinds = {found.group_type for found in admin.list_groups(types=()) if found.group_id == group_id}
    except KafkaError as error:
        logger.warning("whether %s is a group of another kind is not known: %s", group_id, error)
        return
    if kinds and _SHARE not in kinds:
        raise GroupIdNotFoundError(f"Group {group_id} is not a share group: the brokers have a group of this name")
