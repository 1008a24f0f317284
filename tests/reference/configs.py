"""docs/reference/configs.md: every key of the configuration file."""

from __future__ import annotations

from sharegroup.config.reference import reference
from tests.reference.markdown import GENERATED

_INTRODUCTION = f"""# Configuration

{GENERATED} `sharegroup config` prints the same tables.

The configuration is one YAML file with a mapping per section.
[conf/share_group.yaml](../../conf/share_group.yaml) contains every key with its default. Keys have Kafka's names where
Kafka has the key. The job and the gateway do not start with an unknown key or an invalid value.

These pages describe how to use the keys: [security](../security.md), [gateways](../gateways.md),
[metrics](../metrics.md), [static members](../static_members.md), [object stores](../object_stores.md).
"""


def page() -> str:
    """Return the page."""
    tables = reference().replace("\n### ", "\n## ").replace("| key | default | allowed | |", _HEAD)
    return f"{_INTRODUCTION}\n{tables.removeprefix('#').rstrip()}\n"


_HEAD = "| key | default | allowed | meaning |"
