"""`sharegroup share-groups` and `sharegroup configs` over the wire: what they do, what is refused, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import AcknowledgeType
from kafka import TopicPartition

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.integration.command_line import Said, run
from tests.integration.served import Served
from tests.integration.share_members import Group, Record
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

LOCK = "share.record.lock.duration.ms"


class Commands:
    """The command line at one server."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._server = ("--bootstrap-server", bootstrap_servers)

    def share_groups(self, *arguments: str) -> Said:
        return run("share-groups", *self._server, *arguments, "--timeout", str(PATIENCE_S * 1000))

    def configs(self, *arguments: str) -> Said:
        return run("configs", *self._server, *arguments)

    def browse(self, *arguments: str) -> list[dict[str, Any]]:
        return self._rows(run("browse", *self._server, *arguments, "-o", "json"))

    def top(self, *arguments: str) -> list[dict[str, Any]]:
        return self._rows(run("top", *self._server, "--count", "1", *arguments, "-o", "json"))

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What `share-groups -o json` prints."""
        return self._rows(self.share_groups(*arguments, "-o", "json"))

    @staticmethod
    def _rows(said: Said) -> list[dict[str, Any]]:
        assert said.code == 0, said.err
        found: list[dict[str, Any]] = json.loads(said.out)
        return found


@pytest.fixture
def commands(served: Served) -> Commands:
    return Commands(served.bootstrap_servers)


def make_group(admin: ShareGroupAdmin, group_id: str, offsets: dict[TopicPartition, int]) -> None:
    """Kafka's coordinator hears of a new topic a moment after clients do."""
    wait_until(
        lambda: admin.alter_group_offsets(group_id, offsets) == dict.fromkeys(offsets),
        "the coordinator knows the topic",
    )


def starts(commands: Commands, group_id: str) -> dict[int, int | None]:
    return {row["partition"]: row["start_offset"] for row in commands.rows("--describe", "--group", group_id)}


def test_each_way_to_reset(
    commands: Commands,
    served: Served,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    group_id, topic = unique_name("group"), served.new_topic(unique_name("topic"), 2, 5)
    reset = ("--reset-offsets", "--group", group_id)
    assert commands.share_groups(*reset, "--topic", topic, "--to-latest", "--dry-run").code == 0
    assert commands.share_groups("--describe", "--group", group_id).code == 1  # a dry run makes no group

    def done(*scenario: str) -> dict[int, int | None]:
        said = commands.share_groups(*reset, *scenario, "--execute")
        assert said.code == 0, said.err
        return starts(commands, group_id)

    assert done("--topic", f"{topic}:1", "--to-latest") == {1: 5}
    assert done("--topic", topic, "--to-earliest") == {0: 0, 1: 0}
    assert done("--topic", f"{topic}:0,1", "--to-offset", "3") == {0: 3, 1: 3}
    assert done("--all-topics", "--to-current") == {0: 3, 1: 3}
    assert done("--topic", f"{topic}:1", "--to-offset", "99") == {0: 3, 1: 5}
    assert done("--topic", f"{topic}:0", "--to-datetime", "2001-01-01T00:00:00.000") == {0: 0, 1: 5}
    assert done("--topic", f"{topic}:0", "--to-datetime", "2100-01-01T00:00:00.000") == {0: 5, 1: 5}

    said = commands.share_groups(*reset, "--topic", topic, "--to-offset", "2", "--dry-run", "--export")
    assert said.out == f"{topic},0,2\n{topic},1,2\n"
    assert starts(commands, group_id) == {0: 5, 1: 5}
    plan = tmp_path / "plan.csv"
    plan.write_text(said.out)
    assert done("--from-file", str(plan)) == {0: 2, 1: 2}
    plan.write_text(f"{topic},1,4\n{topic},9,4\n")
    assert commands.share_groups(*reset, "--from-file", str(plan), "--execute").code == 1
    assert starts(commands, group_id) == {0: 2, 1: 2}


def test_what_is_refused_at_run_time(
    commands: Commands,
    served: Served,
    admin: ShareGroupAdmin,
    unique_name: Callable[[str], str],
) -> None:
    group_id, other, topic = unique_name("busy"), unique_name("idle"), served.new_topic(unique_name("topic"), 1, 3)
    reset = ("--reset-offsets", "--group", group_id, "--topic")
    at = TopicPartition(topic, 0)
    make_group(admin, other, {at: 1})
    admin.alter_group_configs(group_id, {"share.auto.offset.reset": "earliest"})
    with served.member(group_id, topic) as member:
        member.poll_until(lambda: len(member.accepted) == 3)
        wait_until(lambda: admin.list_group_offsets(group_id)[at].lag == 0, "all is finished")
        before = admin.list_group_offsets(group_id), admin.describe_groups([group_id])
        for how in ("--dry-run", "--execute"):
            said = commands.share_groups(*reset, topic, "--to-earliest", how)
            assert said == (1, "", f"Share group '{group_id}' is not empty.\n")
        said = commands.share_groups("--delete-offsets", "--group", group_id, "--topic", topic)
        assert said.code == 1
        assert "Error: The group is not empty." in said.err
        said = commands.share_groups("--delete", "--group", group_id, "--group", other)
        assert said.code == 1
        assert said.err.splitlines() == [
            "Error: Deletion of some share groups failed:",
            f"* Group '{group_id}' could not be deleted due to: Share group '{group_id}' is not EMPTY.",
        ]
        assert said.out == f"\nThese share groups were deleted successfully: '{other}'\n"
        assert (admin.list_group_offsets(group_id), admin.describe_groups([group_id])) == before

    failed = "Error: Executing share group command failed due to"
    for arguments, message in [
        (("--describe", "--group", other), f"{failed} Group {other} not found."),
        ((*reset, f"{topic}:0,9", "--to-latest", "--execute"), f'{failed} The partitions "{topic}-9" do not exist'),
        (
            (*reset, f"no-{topic}", "--to-latest", "--execute"),
            f"{failed} This server does not host this topic-partition.",
        ),
        (
            (*reset, f"{topic}:x", "--to-latest", "--execute"),
            f"Invalid partition 'x' specified in topic arg '{topic}:x'",
        ),
        ((*reset, topic, "--to-datetime", "today", "--execute"), "Invalid datetime 'today'"),
        (("--reset-offsets", "--group", other, "--all-topics", "--to-latest", "--execute"), "no offset information"),
        (("--delete-offsets", "--group", other, "--topic", topic), f"Error: Group {other} not found."),
        (("--delete", "--group", other), f"Group '{other}' is not a share group."),
        (("--list", "--state", "bogus"), "Invalid state list 'bogus'. Valid states are: Stable, Empty, Dead"),
    ]:
        wait_until(lambda: not admin.describe_groups([group_id])[group_id].members, "the member has left")
        said = commands.share_groups(*arguments)
        assert (said.code, message in said.err) == (1, True), said
    assert admin.list_group_offsets(group_id) == before[0]

    said = commands.configs("--group", group_id, "--alter", "--add-config", f"share.bogus=1,{LOCK}=40000")
    assert (said.code, "share.bogus" in said.err) == (1, True)
    assert not admin.describe_group_configs([group_id])[group_id][LOCK].is_of_group


def test_output_for_machines(
    commands: Commands,
    served: Served,
    admin: ShareGroupAdmin,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("group"), served.new_topic(unique_name("topic"), 2, 0)
    make_group(admin, group_id, {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
    assert {"group": group_id, "state": "Empty"} in commands.rows("--list")
    assert group_id in commands.share_groups("--list").out.splitlines()
    assert commands.rows("--describe", "--group", group_id, "--members") == []
    (state,) = commands.rows("--describe", "--group", group_id, "--state")
    node = admin.describe_groups([group_id])[group_id].coordinator
    assert state == {
        "group": group_id,
        "coordinator": {"id": node.node_id, "host": node.host, "port": node.port},
        "state": "Empty",
        "members": 0,
    }
    said = commands.share_groups("--describe", "--group", group_id, "-o", "yaml", "--verbose")
    assert [(row["topic"], row["partition"], row["start_offset"]) for row in yaml.safe_load(said.out)] == [
        (topic, 0, 0),
        (topic, 1, 0),
    ]
    assert commands.rows("--describe", "--group", group_id, "--lag", ">0") == []

    assert commands.configs("--group", group_id, "--alter", "--add-config", f"{LOCK}=40000").code == 0

    def own() -> list[tuple[str, str, str]]:
        found = json.loads(commands.configs("--group", group_id, "--describe", "-o", "json").out)
        return [(row["config"], row["value"], row["source"]) for row in found]

    wait_until(lambda: own() == [(LOCK, "40000", "DYNAMIC_GROUP_CONFIG")], "the config is told")
    assert commands.configs("--group", group_id, "--alter", "--delete-config", LOCK).code == 0
    wait_until(lambda: own() == [], "the config is gone")
    said = commands.share_groups("--delete", "--group", group_id, "-o", "json")
    assert (said.code, json.loads(said.out)) == (0, [{"group": group_id, "error": None}])


def test_records_and_groups_as_they_are_seen(
    commands: Commands,
    served: Served,
    admin: ShareGroupAdmin,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("group"), served.new_topic(unique_name("topic"), 1, 5)
    make_group(admin, group_id, {TopicPartition(topic, 0): 2})
    where = f"{topic}:0"
    assert [(row["offset"], row["value"]) for row in commands.browse(where, "--max-messages", "2")] == [
        (0, "record 0"),
        (1, "record 1"),
    ]
    assert [row["offset"] for row in commands.browse(where, "--group", group_id)] == [2, 3, 4]
    assert [row["state"] for row in commands.browse(where, "--group", group_id, "--from-offset", "1")] == [
        "FINISHED",
        *3 * ["UNFINISHED"],
    ]
    assert commands.browse(where, "--from-offset", "5") == []
    assert admin.list_group_offsets(group_id)[TopicPartition(topic, 0)].start_offset == 2
    (row,) = (row for row in commands.top() if row["group"] == group_id)
    assert (row["state"], row["members"], row["rate"]) == ("Empty", 0, None)
    for arguments, message in [
        ((f"{topic}:1",), "do not exist"),
        ((topic,), "is not one partition"),
        ((f"no-{topic}:0",), "This server does not host this topic-partition."),
        ((where, "--config", "conf.yaml"), "Option [config] also needs the option [group]"),
    ]:
        said = run("browse", "--bootstrap-server", served.bootstrap_servers, *arguments)
        assert (said.code, said.out, message in said.err) == (1, "", True), said


def test_what_the_tables_tell(gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic) -> None:
    commands = Commands(gateway.bootstrap_servers)
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 3))
    config = ("--config", str(share_group_job.config_path))
    of_group = ("--describe", "--group", group.id)
    with group.member(share_acknowledgement_mode="explicit") as member:
        held: list[Record] = []
        member.poll_until(lambda: len(held) == 3, held.append)
        member.acknowledge(held[0])
        member.acknowledge(held[1], AcknowledgeType.REJECT)
        member.consumer.commit_sync()

        def in_flight() -> list[tuple[int, int, str]]:
            found = commands.rows(*of_group, "--in-flight", *config)
            return [(row["first_offset"], row["last_offset"], row["state"]) for row in found]

        wait_until(lambda: in_flight() == [(2, 2, "ACQUIRED")], "the rest is in flight")
        (row,) = commands.rows(*of_group, "--in-flight", *config)
        (described,) = commands.rows(*of_group, "--members")
        assert (row["topic"], row["partition"], row["delivery_count"]) == (group.topic, 0, 1)
        assert row["consumer_id"] == described["consumer_id"]
        assert row["lock_deadline"].endswith("Z")
        said = commands.share_groups(*of_group, "--in-flight", *config)
        assert "LOCK-DEADLINE" in said.out
        assert (said.code, said.err) == (0, "")

        read = commands.browse(f"{group.topic}:0", "--group", group.id, *config)
        assert [(row["offset"], row["state"], row["value"]) for row in read] == [(2, "ACQUIRED", "record 2")]
        (row,) = (row for row in commands.top(*config) if row["group"] == group.id)
        assert (row["state"], row["members"], row["lag"], row["in_flight"]) == ("Stable", 1, 1, 1)
        assert row["oldest_s"] > 0

    def history(offset: int) -> list[tuple[str, str, str]]:
        record = ("--history", "--topic", f"{group.topic}:0", "--offset", str(offset))
        found = commands.rows(*of_group, *record, *config)
        return [(row["cause"], row["from_state"], row["to_state"]) for row in found]

    fetched = ("fetch", "AVAILABLE", "ACQUIRED")
    wait_until(lambda: history(1) == [fetched, ("reject", "ACQUIRED", "ARCHIVED")], "the log has the rejection")
    assert history(0) == [fetched, ("accept", "ACQUIRED", "ACKNOWLEDGED")]
    assert history(2)[0] == fetched
    assert history(7) == []

    for arguments in (("--topic", group.topic), ("--topic", f"{group.topic}:0,1")):
        said = commands.share_groups(*of_group, "--history", *arguments, "--offset", "0", *config)
        assert (said.code, "requires one record" in said.err) == (1, True)
    said = commands.share_groups(*of_group, "--in-flight", "--config", "no-such.yaml")
    assert (said.code, said.out) == (1, "")
