"""An administrator of a share group, connected to a gateway.

    python examples/administer.py 127.0.0.1:9192 billing

It prints the state, the members and the lag of the group, limits the deliveries of a record to 3, and resets the group
to the beginning of its topics if it has no members.
"""

from __future__ import annotations

import sys

from sharegroup.kafka_clients.admin import ShareGroupAdmin


def main(bootstrap_servers: str, group_id: str) -> None:
    """Print the group and change it."""
    with ShareGroupAdmin(bootstrap_servers) as admin:
        group = admin.describe_groups([group_id])[group_id]
        print(f"group {group_id}: state {group.group_state}, {len(group.members)} members")

        offsets = admin.list_group_offsets(group_id)
        for partition, found in sorted(offsets.items()):
            print(f"{partition.topic}-{partition.partition}: start offset {found.start_offset}, lag {found.lag}")

        admin.alter_group_configs(group_id, {"share.delivery.count.limit": "3"})
        limit = admin.describe_group_configs([group_id])[group_id]["share.delivery.count.limit"]
        print(f"{limit.name} = {limit.value}")

        if not group.members:
            errors = admin.alter_group_offsets(group_id, dict.fromkeys(offsets, 0))
            print(f"reset {sum(error is None for error in errors.values())} of {len(errors)} share-partitions")


if __name__ == "__main__":
    main(*sys.argv[1:])
