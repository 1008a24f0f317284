"""Checks, before a new member joins a group, that no group of another type has the same name."""

import logging
from typing import Any

from kafka.errors import GroupIdNotFoundError, KafkaError

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: The time limit of the check, in ms. If the brokers do not respond, the member joins without the check.
_TIMEOUT_MS = 10_000
_SHARE = "share"


def check_group_type(kafka: ClientSettings, group_id: str) -> None:
    """Raise GroupIdNotFoundError, as Kafka does, if a group of another type, and no share group, has this name.

    Behind a gateway, a share group and a group of another type may have the same name. In that case nothing is raised.
    If the brokers do not respond, only a warning is logged. `kafka` has kafka-python's settings.
    """
    settings: dict[str, Any] = dict(kafka)
    try:
        with ShareGroupAdmin(timeout_ms=_TIMEOUT_MS, **settings) as admin:
            kinds = {found.group_type for found in admin.list_groups(types=()) if found.group_id == group_id}
    except KafkaError as error:
        logger.warning(
            "cannot check whether a group of another type has the name %(group)s; joining without the check: %(error)s",
            LogFields(group=group_id, error=error),
        )
        return
    if kinds and _SHARE not in kinds:
        raise GroupIdNotFoundError(
            f"Group {group_id} is not a share group: the brokers have a group of another type with this name"
        )
