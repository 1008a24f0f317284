"""Share groups are administered through the gateway by Kafka's own tools, and by requests as they are on the wire.

Each tool is a JVM of its own, so those that only look run side by side.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.structs import OffsetAndMetadata

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.connection import UpstreamConnection
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from sharegroup.storage import read_group, read_group_configs, read_groups, read_share_group_offsets
from tests.integration.java_tool import tool_command
from tests.integration.share_members import Group
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer

    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOCK, CONSUMER_SESSION = "share.record.lock.duration.ms", "consumer.session.timeout.ms"
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = 0, 1


class Said(NamedTuple):
    """What a tool said, and its exit code."""

    text: str
    exit_code: int

    def table(self, *columns: str) -> list[dict[str, str]]:
        """The rows below the head with exactly these columns, which is where their values begin."""
        lines = self.text.splitlines()
        heads = [number for number, line in enumerate(lines) if line.split() == " ".join(columns).split()]
        assert heads, f"no {columns} in:\n{self.text}"
        head, rows = lines[heads[0]], []
        starts = [re.search(rf"(^|\s){re.escape(column)}(\s|$)", head) for column in columns]
        begins = [match.start() + len(match[1]) for match in starts if match is not None]
        for line in lines[heads[0] + 1 :]:
            if not line.strip():
                break
            values = [line[a:b].strip() for a, b in zip(begins, [*begins[1:], None], strict=True)]
            rows.append(dict(zip(columns, values, strict=True)))
        return rows


class Tools:
    """Runs tools against the gateway, two at a time."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._threads = ThreadPoolExecutor(2)

    def start(self, main_class: str, *arguments: str) -> Future[Said]:
        return self._threads.submit(self._run, main_class, arguments)

    def share_groups(self, *arguments: str) -> Future[Said]:
        return self.start(SHARE_GROUPS, *arguments, "--timeout", str(PATIENCE_S * 1000))

    def _run(self, main_class: str, arguments: tuple[str, ...]) -> Said:
        command = tool_command(main_class, ["--bootstrap-server", self._bootstrap_servers, *arguments])
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return Said(done.stdout, done.returncode)

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture
def tools(gateway: GatewayProcess) -> Iterator[Tools]:
    started = Tools(gateway.bootstrap_servers)
    yield started
    started.close()


@pytest.fixture
def classic_group(gateway: GatewayProcess, new_topic: NewTopic, unique_name: Callable[[str], str]) -> str:
    """A group of Kafka's own, whose offset was committed through the gateway."""
    group_id, topic = unique_name("classic"), new_topic(1, 1)
    consumer = KafkaConsumer(bootstrap_servers=gateway.bootstrap_servers, group_id=group_id, enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    consumer.close()
    return group_id


def test_kafkas_tools(
    gateway: GatewayProcess,
    share_group_job: ShareGroupJobRun,
    tools: Tools,
    classic_group: str,
    new_topic: NewTopic,
    producer: KafkaProducer,
) -> None:
    topic, untouched = new_topic(2, 10), new_topic(1, 1)
    tables = str(share_group_job.tables_path)
    reader = Group(share_group_job, gateway.bootstrap_servers, topic)
    group_id = reader.id

    def finished() -> bool:
        rows = read_share_group_offsets(tables, group_id)
        return [row.start_offset + row.delivery_complete_count for row in rows] == [10, 10]

    # With a member.
    with reader.member(client_id="teller") as member:
        member.poll_until(lambda: len(member.accepted) == 20)
        wait_until(finished, "all records are finished")
        with_members = tools.share_groups("--describe", "--group", group_id, "--members", "--verbose")
        with_state = tools.share_groups("--describe", "--group", group_id, "--state", "--verbose")
        reset = ("--reset-offsets", "--group", group_id, "--topic")
        refused = tools.share_groups(*reset, topic, "--to-earliest", "--execute")
        group = read_group(tables, group_id)
        assert group is not None
        members = "GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT"
        assert with_members.result().table(*members) == [
            dict(
                zip(
                    members,
                    (
                        group_id,
                        group.members[0].member_id,
                        "/127.0.0.1",
                        "teller",
                        "2",
                        str(group.members[0].member_epoch),
                        f"{topic}:0,1",
                    ),
                    strict=True,
                )
            )
        ]
        states = "GROUP", "COORDINATOR (ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"
        (row,) = with_state.result().table(*states)
        (address,) = gateway.addresses.values()
        assert row["COORDINATOR (ID)"].split() == [address, "(1)"]
        assert (row["STATE"], row["#MEMBERS"]) == ("Stable", "1")
        assert row["GROUP-EPOCH"] == row["ASSIGNMENT-EPOCH"] == str(group.group_epoch)
        assert refused.result().exit_code == 1
        assert f"Share group '{group_id}' is not empty." in refused.result().text

    # Without: what there is.
    wait_until(lambda: (group_id, "Empty") in read_groups(tables), "the member has left")
    for _ in range(3):
        producer.send(topic, b"late", partition=0)
    producer.flush()
    offsets = tools.share_groups("--describe", "--group", group_id, "--verbose")
    listed = tools.share_groups("--list", "--state", "empty,stable")
    all_groups = tools.start(GROUPS, "--list")
    of_type = [tools.start(GROUPS, "--list", *kind) for kind in (("--share",), ("--group-type", "Share"))]
    dry_run = tools.share_groups(*reset, f"{topic}:0", "--to-earliest", "--dry-run")
    columns = "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"
    stored = read_share_group_offsets(tables, group_id)
    assert [tuple(row.values()) for row in offsets.result().table(*columns)] == [
        (group_id, topic, str(row.partition), str(row.leader_epoch), str(row.start_offset), lag)
        for row, lag in zip(stored, ("3", "0"), strict=True)
    ]
    rows = listed.result().table("GROUP", "STATE")
    assert {"GROUP": group_id, "STATE": "Empty"} in rows
    assert classic_group not in {row["GROUP"] for row in rows}
    kinds = {
        row["GROUP"]: (row["TYPE"], row["PROTOCOL"]) for row in all_groups.result().table("GROUP", "TYPE", "PROTOCOL")
    }
    assert kinds[group_id] == ("Share", "share")
    assert kinds[classic_group][0] == "Classic"
    for said in of_type:
        of_groups = {row["GROUP"]: row["TYPE"] for row in said.result().table("GROUP", "TYPE", "PROTOCOL")}
        assert of_groups[group_id] == "Share"
        assert classic_group not in of_groups
    new_offsets = "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"
    assert [tuple(row.values()) for row in dry_run.result().table(*new_offsets)] == [(group_id, topic, "0", "0")]
    assert read_share_group_offsets(tables, group_id) == stored

    # Offsets are reset, then deleted.
    done = tools.share_groups(*reset, f"{topic}:0", "--to-latest", "--execute").result()
    assert [tuple(row.values()) for row in done.table(*new_offsets)] == [(group_id, topic, "0", "13")]
    assert read_share_group_offsets(tables, group_id)[0].start_offset == 13
    topics = [argument for name in (topic, untouched, "no-such-topic") for argument in ("--topic", name)]
    deleted = tools.share_groups("--delete-offsets", "--group", group_id, *topics).result()
    assert {row["TOPIC"]: row["STATUS"] for row in deleted.table("TOPIC", "STATUS")} == {
        topic: "Successful",
        untouched: "Error: There is no offset information to delete.",
        "no-such-topic": "Error: This server does not host this topic-partition.",
    }
    assert not read_share_group_offsets(tables, group_id)

    # Configs, of both coordinators.
    entity = "--entity-type", "groups", "--entity-name", group_id
    changes = f"{LOCK}=40000,{CONSUMER_SESSION}=50000"
    assert tools.start(CONFIGS, *entity, "--alter", "--add-config", changes).result().exit_code == 0
    described = tools.start(CONFIGS, *entity, "--describe")
    of_all = tools.start(CONFIGS, "--entity-type", "groups", "--describe")
    broker = str(min(gateway.addresses))
    of_broker = tools.start(CONFIGS, "--entity-type", "brokers", "--entity-name", broker, "--describe", "--all")
    assert f"{LOCK}=40000 sensitive=false" in described.result().text
    assert f"DYNAMIC_GROUP_CONFIG:{LOCK}=40000" in described.result().text
    assert f"{CONSUMER_SESSION}=50000" in described.result().text
    assert f"group {group_id} are" in of_all.result().text
    job_lock = "group.share.record.lock.duration.ms"  # of the job, and not of the broker behind the gateway
    synonyms = f"{{STATIC_BROKER_CONFIG:{job_lock}=600000, DEFAULT_CONFIG:{job_lock}=30000}}"
    assert f"{job_lock}=600000 sensitive=false synonyms={synonyms}" in of_broker.result().text
    assert "log.dirs=" in of_broker.result().text
    assert read_group_configs(tables)[group_id] == {LOCK: "40000"}

    # The group is deleted.
    gone = tools.share_groups("--delete", "--group", group_id, "--group", classic_group).result()
    assert f"Group '{classic_group}' could not be deleted" in gone.text
    assert f"These share groups were deleted successfully: '{group_id}'" in gone.text
    assert group_id not in {listing.group_id for listing in read_groups(tables)}
    unknown = tools.share_groups("--describe", "--group", group_id).result()
    assert f"Group {group_id} not found." in unknown.text


# -- requests on the wire


Ask = Callable[[Any, Any, int], Any]


@pytest.fixture
def ask(gateway: GatewayProcess) -> Ask:
    """`ask(request, response class, version)`, on a connection of its own."""
    host, port = gateway.bootstrap_servers.split(",")[0].rsplit(":", 1)

    async def exchange(request: Any, response: Any, version: int) -> Any:
        connection = await UpstreamConnection.connect(host, int(port), {})
        try:
            return await connection.ask(request, response, version)
        finally:
            connection.close()

    return lambda request, response, version: asyncio.run(exchange(request, response, version))


def altered_offsets(ask: Ask, group_id: str, topic: str, partition: int, offset: int) -> Any:
    item = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    entry = item.AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=[item(topic_name=topic, partitions=[entry])])
    return ask(request, AlterShareGroupOffsetsResponse, 0)


def test_groups_that_are_made_by_an_alteration(
    ask: Ask, new_topic: NewTopic, unique_name: Callable[[str], str], classic_group: str
) -> None:
    group_id, topic = unique_name("made"), new_topic(2, 5)
    response = altered_offsets(ask, group_id, topic, 1, 4)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
    assert response.responses[0].topic_id is not None
    response = altered_offsets(ask, group_id, topic, 2, 4)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert altered_offsets(ask, "", topic, 1, 4).error_code == ErrorCode.INVALID_GROUP_ID

    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    asked = [group(group_id=group_id, topics=None), group(group_id="no-such-group", topics=None)]
    made, unknown = ask(DescribeShareGroupOffsetsRequest(groups=asked), DescribeShareGroupOffsetsResponse, 1).groups
    (partition,) = made.topics[0].partitions
    assert (made.error_code, partition.partition_index, partition.start_offset) == (0, 1, 4)
    assert (unknown.error_code, unknown.topics) == (0, [])

    request = ShareGroupDescribeRequest(group_ids=[group_id, "no-such-group"], include_authorized_operations=True)
    made, unknown = ask(request, ShareGroupDescribeResponse, 1).groups
    assert (made.error_code, made.group_state, made.members) == (0, "Empty", [])
    assert made.authorized_operations > 0
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    for version in range(6):
        groups = ask(ListGroupsRequest(), ListGroupsResponse, version).groups
        assert {group_id, classic_group} <= {row.group_id for row in groups}
    rows = ask(ListGroupsRequest(types_filter=["classic"]), ListGroupsResponse, 5).groups
    assert group_id not in {row.group_id for row in rows}

    topics = [DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    request = DeleteShareGroupOffsetsRequest(group_id="no-such-group", topics=topics)
    assert ask(request, DeleteShareGroupOffsetsResponse, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = DeleteGroupsRequest(groups_names=[group_id, classic_group, "no-such-group"])
    results = ask(request, DeleteGroupsResponse, 2).results
    assert {result.group_id: result.error_code for result in results} == {
        group_id: 0,
        classic_group: 0,
        "no-such-group": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_configs_of_groups_and_of_others(ask: Ask, new_topic: NewTopic, unique_name: Callable[[str], str]) -> None:
    group_id, topic = unique_name("configured"), new_topic(1, 0)

    def alter(configs: dict[str, str | None], *, of_topic: str | None = None, validate_only: bool = False) -> list[Any]:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        changes = [
            resource.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in configs.items()
        ]
        resources = [resource(resource_type=GROUP, resource_name=group_id, configs=changes)]
        if of_topic is not None:
            change = resource.AlterableConfig(name="retention.ms", config_operation=SET, value=of_topic)
            resources.append(resource(resource_type=TOPIC, resource_name=topic, configs=[change]))
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        answers = ask(request, IncrementalAlterConfigsResponse, 1).responses
        return [(answer.resource_type, answer.error_code) for answer in sorted(answers, key=lambda a: -a.resource_type)]

    def described() -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = [LOCK, CONSUMER_SESSION], ["retention.ms"]
        resources = [
            resource(resource_type=kind, resource_name=name, configuration_keys=names)
            for kind, name, names in zip((GROUP, TOPIC), (group_id, topic), wanted, strict=True)
        ]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
        results = ask(request, DescribeConfigsResponse, 4).results
        of_group, of_topic = ({e.name: (e.value, e.config_source) for e in result.configs} for result in results)
        return of_group, of_topic

    def lock_timeout_ms() -> int:
        request = ShareFetchRequest(
            group_id=group_id,
            member_id=str(uuid.uuid4()),
            share_session_epoch=0,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=0,
            max_records=1,
            batch_size=1,
            share_acquire_mode=0,
            is_renew_ack=False,
            topics=[],
            forgotten_topics_data=[],
        )
        return ask(request, ShareFetchResponse, 2).acquisition_lock_timeout_ms

    of_file, default, of_group, of_topic = 4, 5, 8, 1
    before = described()
    assert before[0][LOCK] == ("600000", of_file)  # the job's value
    assert before[0][CONSUMER_SESSION][1] in (of_file, default)
    both = {LOCK: "40000", CONSUMER_SESSION: "50000"}
    assert alter(both, of_topic="86400000", validate_only=True) == [(GROUP, 0), (TOPIC, 0)]
    assert alter({LOCK: "40000", CONSUMER_SESSION: "1"}) == [(GROUP, ErrorCode.INVALID_CONFIG)]
    assert alter({LOCK: "1", CONSUMER_SESSION: "50000"}) == [(GROUP, ErrorCode.INVALID_CONFIG)]
    assert alter({"share.bogus": "1"}, of_topic="86400000") == [(GROUP, ErrorCode.INVALID_CONFIG), (TOPIC, 0)]
    after = before[0], {"retention.ms": ("86400000", of_topic)}
    wait_until(lambda: described() == after, "the broker learns of the topic's config, and of nothing else")
    assert lock_timeout_ms() == 600_000

    assert alter(both) == [(GROUP, 0)]
    changed = {LOCK: ("40000", of_group), CONSUMER_SESSION: ("50000", of_group)}
    wait_until(lambda: described()[0] == changed, "the broker learns of the group's configs")
    assert lock_timeout_ms() == 40_000
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    resources = ask(request, ListConfigResourcesResponse, 1).config_resources
    assert (GROUP, group_id) in {(found.resource_type, found.resource_name) for found in resources}
    assert not ask(ListConfigResourcesRequest(), ListConfigResourcesResponse, 0).config_resources

    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(name="group.share.max.size", config_operation=SET, value="5")
    refused = resource(resource_type=BROKER, resource_name="1", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[refused], validate_only=False)
    (answer,) = ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert (answer.resource_type, answer.error_code) == (BROKER, ErrorCode.INVALID_CONFIG)
    assert "cannot be altered; set it in the configuration file" in answer.error_message

    assert alter({LOCK: None, CONSUMER_SESSION: None}) == [(GROUP, 0)]
    wait_until(lambda: described()[0] == before[0], "the broker learns that they are gone")
    assert lock_timeout_ms() == 600_000
