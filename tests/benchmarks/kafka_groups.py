"""Kafka's own share groups, for comparison."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def begin_at_earliest(bootstrap_servers: str, groups: Iterable[str]) -> None:
    """Have groups that are new begin at the start of their topics."""
    set_group_config(bootstrap_servers, groups, "share.auto.offset.reset", "earliest")


def set_group_config(bootstrap_servers: str, groups: Iterable[str], key: str, value: str) -> None:
    """Set a key of some groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry]) for group in groups]
    for future in admin.incremental_alter_configs(resources).values():
        future.result(30)
