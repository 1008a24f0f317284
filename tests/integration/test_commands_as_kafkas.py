"""The same script of commands by Kafka's tools on Kafka, by ours on Kafka, and by ours on the gateway: the same words.

What is let go of, as docs/admin.md says: figures that are the server's own (epochs, how far the start offset is), exit
codes, blank lines and runs of blanks, whether a line is an error's or not, Java's class names and stack traces, and the
order of a reset's rows. Refused options are in tests/unit/cli.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.integration.command_line import run as run_ours
from tests.integration.java_tool import tool_command
from tests.integration.served import Served
from tests.integration.share_members import Member
from tests.integration.waiting import wait_until

TOOLS = {
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "configs": "kafka.admin.ConfigCommand",
}
LOCK = "share.record.lock.duration.ms"
GROUP = "--entity-type groups --entity-name {group}"

#: Each step's commands only look, or refuse, or are a single one: a tool's JVMs run side by side.
MADE = [["share-groups --reset-offsets --group {group} --topic {topic} --to-earliest --execute"]]
ALONE = [
    [
        "share-groups --describe --group {group}",
        "share-groups --describe --group {group} --members",
        "share-groups --describe --group {group} --state",
        "share-groups --reset-offsets --group {group} --all-topics --to-latest --dry-run",
        "share-groups --reset-offsets --group {group} --topic {topic}:1 --to-datetime 2100-01-01T00:00:00.0 --dry-run",
        "share-groups --reset-offsets --group {group} --topic {topic}:0,9 --to-latest --execute",
        "share-groups --reset-offsets --group {group} --topic no-{topic} --to-latest --execute",
        "share-groups --describe --group no-{group}",
        "share-groups --delete --group no-{group}",
        "share-groups --delete-offsets --group no-{group} --topic {topic}",
        f"configs {GROUP} --describe",
        "configs --entity-type groups --entity-name no-{group} --describe",
    ],
    [f"configs {GROUP} --alter --add-config {LOCK}=40000"],
    [f"configs {GROUP} --alter --add-config-file {{file}}"],
    [f"configs {GROUP} --alter --delete-config {LOCK}"],
]
WITH_A_MEMBER = [
    [
        "share-groups --describe --group {group} --members",
        "share-groups --describe --group {group} --state",
        "share-groups --reset-offsets --group {group} --topic {topic} --to-latest --dry-run",
        "share-groups --delete --group {group}",
        "share-groups --delete-offsets --group {group} --topic {topic}",
    ]
]
AT_LAST = [
    ["share-groups --delete-offsets --group {group} --topic {topic} --topic no-{topic}"],
    ["share-groups --describe --group {group}"],
    ["share-groups --delete --group {group} --group no-{group}"],
]

pytestmark = pytest.mark.long


class Run(NamedTuple):
    """Commands, by Kafka's tools or ours, about a group that no other run has."""

    server: Served
    tool: Callable[[list[str]], str]
    group_id: str
    topic: str
    file: Path

    def say(self, steps: list[list[str]]) -> list[tuple[str, list[str]]]:
        """What was said to each command, with all that runs differ in replaced."""
        said = []
        for step in steps:
            asked = [self._filled_in(command).split() for command in step]
            with ThreadPoolExecutor(2 if self.tool is by_kafkas_tool else 1) as threads:
                answers = list(threads.map(self._ask, asked))
            said += [(command, self._plain(answer)) for command, answer in zip(step, answers, strict=True)]
        return said

    def _filled_in(self, command: str) -> str:
        return command.format(group=self.group_id, topic=self.topic, file=self.file)

    def _ask(self, command: list[str]) -> str:
        return self.tool([command[0], "--bootstrap-server", self.server.bootstrap_servers, *command[1:]])

    def _plain(self, text: str) -> list[str]:
        text = "\n".join(line for line in text.splitlines() if not _is_trace(line))
        for own, name in ((self.group_id, "GROUP"), (self.topic, "TOPIC")):
            text = text.replace(own, name)
        text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
        text = re.sub(r"(?<!\S)[A-Za-z0-9_/+-]{22}(?!\S)", "MEMBER", text)
        text = re.sub(r"\b(java|org)\.[a-zA-Z.]+: ", "", text)
        lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
        return sorted(line for line in lines if line)


def _is_trace(line: str) -> bool:
    return bool(re.match(r"\s+at |Caused by|\s*\.\.\. \d+ more|(java|org|joptsimple)\.[a-zA-Z.]+(:|$)", line))


def by_kafkas_tool(command: list[str]) -> str:
    done = subprocess.run(
        tool_command(TOOLS[command[0]], command[1:]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.stdout


def by_ours(command: list[str]) -> str:
    """In this process, whose standard output it takes: one at a time."""
    said = run_ours(*command)
    return said.out + said.err


@pytest.fixture
def runs(request: pytest.FixtureRequest, unique_name: Callable[[str], str], tmp_path: Path) -> list[Run]:
    """Kafka's tools on Kafka first: the others are to say the same."""
    broker = request.getfixturevalue("kafka_with_share_groups")
    of_kafka = Served(False, broker.bootstrap_servers, broker)
    gateway = request.getfixturevalue("gateway")
    of_ours = Served(True, gateway.bootstrap_servers, request.getfixturevalue("kafka"))
    name = unique_name("")[-8:]
    file = tmp_path / "group.properties"
    file.write_text(f"# from a file\n{LOCK} = 41000\nshare.session.timeout.ms=50000\n")
    found = [(of_kafka, by_kafkas_tool), (of_kafka, by_ours), (of_ours, by_ours)]
    return [
        Run(server, tool, f"group-{number}-{name}", server.new_topic(f"topic-{number}-{name}", 2, 3), file)
        for number, (server, tool) in enumerate(found)
    ]


def test_the_same_commands_say_the_same(runs: list[Run]) -> None:
    said = [run.say(MADE) for run in runs]
    for run in runs:
        wait_until(lambda run=run: lags(run) == [3, 3], "the lag is known")
    said = [[*before, *run.say(ALONE)] for run, before in zip(runs, said, strict=True)]
    assert [own_configs(run) for run in runs] == [{"share.session.timeout.ms": "50000"}] * len(runs)
    members = [run.server.member(run.group_id, run.topic) for run in runs]
    try:
        for run, member in zip(runs, members, strict=True):
            read_all(run, member)
        said = [[*before, *run.say(WITH_A_MEMBER)] for run, before in zip(runs, said, strict=True)]
    finally:
        for member in members:
            member.close()
    for run in runs:
        wait_until(lambda run=run: not has_members(run), "the member has left")
    kafkas, *ours = [[*before, *run.say(AT_LAST)] for run, before in zip(runs, said, strict=True)]
    for found in ours:
        differences = [f"{a}\n{b}" for a, b in zip(kafkas, found, strict=True) if a != b]
        assert not differences, "\n\n".join(differences)


def read_all(run: Run, member: Member) -> None:
    member.poll_until(lambda: len(member.accepted) == 6)
    wait_until(lambda: lags(run) == [0, 0], "all records are finished")


def lags(run: Run) -> list[int | None]:
    with ShareGroupAdmin(run.server.bootstrap_servers) as admin:
        return [found.lag for found in admin.list_group_offsets(run.group_id).values()]


def own_configs(run: Run) -> dict[str, str | None]:
    with ShareGroupAdmin(run.server.bootstrap_servers) as admin:
        entries = admin.describe_group_configs([run.group_id])[run.group_id].values()
        return {entry.name: entry.value for entry in entries if entry.is_of_group}


def has_members(run: Run) -> bool:
    with ShareGroupAdmin(run.server.bootstrap_servers) as admin:
        return bool(admin.describe_groups([run.group_id])[run.group_id].members)
