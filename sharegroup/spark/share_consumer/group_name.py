"""The check of a group's name before a new member joins: in Kafka a name belongs to one group of one type."""

import logging
from typing import Any

from kafka.errors import GroupIdNotFoundError, KafkaError

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: The time limit of the check. It is only a help for users: without a response the member joins.
_TIMEOUT_MS = 10_000
_SHARE = "share"


def check_group_type(kafka: ClientSettings, group_id: str) -> None:
    """Raise GroupIdNotFoundError, as Kafka does, if the brokers have a group of this name of another type.

    `kafka` holds kafka-python's settings. A gateway lists share groups too. A name with groups of both types passes.
    """
    settings: dict[str, Any] = dict(kafka)
    try:
        with ShareGroupAdmin(timeout_ms=_TIMEOUT_MS, **settings) as admin:
            kinds = {found.group_type for found in admin.list_groups(types=()) if found.group_id == group_id}
    except KafkaError as error:
        logger.warning(
            "group %(group)s: the check for a group of another type failed, joining without it: %(error)s",
            LogFields(group=group_id, error=error),
        )
        return
    if kinds and _SHARE not in kinds:
        raise GroupIdNotFoundError(f"Group {group_id} is not a share group: the brokers have a group of this name")
