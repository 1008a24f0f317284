"""Authorization of forwarded requests: which parts are forwarded, which are rejected, and how the responses merge."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol import admin, consumer, producer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.connections.headers import UnknownVersionError
from sharegroup.protocol import messages
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from tests.unit.gateway.passthrough_cases import HIDDEN, authorize

TOPIC, GROUP, CLUSTER = (
    int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
)
TRANSACTIONAL_ID = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
ORDERS, SECRET, ROWS, UNKNOWN = (uuid.UUID(int=number) for number in (1, 2, 3, 4))
IDS = {"orders": ORDERS, "secret": SECRET, HIDDEN: ROWS}


def produce(*names: str, acks: int = 1, transactional_id: str | None = None, ids: tuple[uuid.UUID, ...] = ()) -> Any:
    topic = producer.ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData
    topics = [topic(name=name, partition_data=[partition(index=3, records=b"r")]) for name in names]
    topics += [topic(topic_id=topic_id, partition_data=[partition(index=3, records=b"r")]) for topic_id in ids]
    return producer.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=topics)


def produced(name: str) -> Any:
    topic = producer.ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse(index=3, error_code=0, base_offset=17, record_errors=[])
    return producer.ProduceResponse(responses=[topic(name=name, partition_responses=[partition])], throttle_time_ms=5)


def fetch(*names: str, ids: tuple[uuid.UUID, ...] = (), **fields: Any) -> Any:
    topic = consumer.FetchRequest.FetchTopic
    partition = topic.FetchPartition(partition=3, fetch_offset=7, partition_max_bytes=1)
    topics = [topic(topic=name, partitions=[partition]) for name in names]
    topics += [topic(topic_id=topic_id, partitions=[partition]) for topic_id in ids]
    defaults = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "", "replica_id": -1}
    return consumer.FetchRequest(
        max_wait_ms=1, min_bytes=1, max_bytes=1, isolation_level=0, topics=topics, **(defaults | fields)
    )


def fetched(name: str = "", topic_id: uuid.UUID = NO_TOPIC_ID) -> Any:
    topic = consumer.FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=3, error_code=0, high_watermark=20, last_stable_offset=20, log_start_offset=0,
        aborted_transactions=None, preferred_read_replica=-1, records=b"records",
    )  # fmt: skip
    found = topic(topic=name, topic_id=topic_id, partitions=[partition])
    return consumer.FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[found])


def codes(topics: Any, name: str = "name", partitions: str = "partitions", code: str = "error_code") -> dict[Any, Any]:
    """Return {topic: error codes of its partitions}."""
    return {getattr(topic, name): [getattr(each, code) for each in getattr(topic, partitions)] for topic in topics}


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 13))
def test_producer_needs_only_write_on_its_topic(version: int) -> None:
    assert authorize(produce("orders"), version, "Write topic orders").is_as_it_came
    both = authorize(produce("orders", "secret"), version, "Write topic orders", response=produced("orders"))
    assert [topic.name for topic in both.sent.topic_data] == ["orders"]
    assert both.sent.topic_data[0].partition_data[0].records == b"r"
    assert codes(both.response.responses, partitions="partition_responses") == {"orders": [0], "secret": [TOPIC]}
    (kept, refused) = (topic.partition_responses[0] for topic in both.response.responses)
    assert (kept.base_offset, refused.index, refused.base_offset) == (17, 3, -1)
    assert both.security.denials == [("WRITE", "topic", "secret")]
    alone = authorize(produce("secret"), version, "Read topic secret")
    assert alone.sent is None
    assert codes(alone.response.responses, partitions="partition_responses") == {"secret": [TOPIC]}


def test_transactional_producer_needs_write_on_its_transactional_id() -> None:
    grants = ("Write topic orders", "Write transactional_id tx*")
    assert authorize(produce("orders", transactional_id="tx-1"), 9, *grants).is_as_it_came
    refused = authorize(produce("orders", transactional_id="other"), 9, *grants)
    assert refused.sent is None
    assert codes(refused.response.responses, partitions="partition_responses") == {"orders": [TRANSACTIONAL_ID]}


def test_rejected_produce_with_acks_0_closes_the_connection() -> None:
    assert authorize(produce("orders", acks=0), 9, "Write topic orders").is_as_it_came
    with pytest.raises(RequestError):
        authorize(produce("orders", "secret", acks=0), 9, "Write topic orders")


def test_topics_are_authorized_by_their_ids() -> None:
    asked = produce(ids=(ORDERS, SECRET, UNKNOWN))
    passed = authorize(asked, 13, "Write topic orders", topics=IDS)
    assert [topic.topic_id for topic in passed.sent.topic_data] == [ORDERS]
    grants = ("Read topic orders", "Write topic *")
    read = authorize(fetch(ids=(ORDERS, SECRET, UNKNOWN)), 15, *grants, topics=IDS, response=fetched(topic_id=ORDERS))
    assert [topic.topic_id for topic in read.sent.topics] == [ORDERS]
    assert codes(read.response.responses, "topic_id") == {
        ORDERS: [0],
        SECRET: [TOPIC],
        UNKNOWN: [ErrorCode.UNKNOWN_TOPIC_ID],
    }
    assert bytes(read.response.responses[0].partitions[0].records) == b"records"
    assert read.security.denials == [("READ", "topic", "secret")]


@pytest.mark.parametrize("version", range(4, 19))
def test_internal_topics_are_rejected_with_and_without_a_list(version: int) -> None:
    by_name = {"ids": (ORDERS, ROWS)} if version >= 13 else {}
    names = () if by_name else ("orders", HIDDEN)
    for has_list in (False, True):
        found = authorize(
            fetch(*names, **by_name),
            version,
            "All topic *",
            "All cluster",
            acl=has_list,
            topics=IDS,
            response=fetched("orders", ORDERS),
        )
        key = "topic_id" if by_name else "topic"
        expected = {ORDERS: [0], ROWS: [TOPIC]} if by_name else {"orders": [0], HIDDEN: [TOPIC]}
        assert codes(found.response.responses, key) == expected
        assert [getattr(topic, key) for topic in found.sent.topics] == [ORDERS if by_name else "orders"]


def test_fetch_session_is_not_created_with_an_access_control_list() -> None:
    assert authorize(fetch("orders", session_epoch=0), 12, "Read topic orders").sent.session_epoch == -1
    without = authorize(fetch("orders", session_epoch=0), 12, acl=False)
    assert without.is_as_it_came
    left_over = authorize(fetch(session_epoch=5, session_id=9), 12, "Read topic orders")
    assert left_over.sent is None
    assert left_over.response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_fetch_session_continues_without_an_internal_topic() -> None:
    found = authorize(fetch(HIDDEN, session_epoch=5, session_id=9), 12, acl=False, response=fetched("orders"))
    assert found.sent.topics == []
    assert codes(found.response.responses, "topic") == {"orders": [0], HIDDEN: [TOPIC]}


@pytest.mark.parametrize("version", [4, 12, 14])
def test_client_cannot_fetch_as_a_follower(version: int) -> None:
    """A follower receives uncommitted records and moves the high watermark."""
    asked = fetch(*(() if version > 12 else ("orders",)), ids=(ORDERS,) if version > 12 else (), replica_id=2)
    assert authorize(asked, version, "Read topic orders", topics=IDS).sent.replica_id == -1


def test_client_cannot_fetch_as_a_follower_by_a_tagged_field() -> None:
    asked = fetch(ids=(ORDERS,))
    state = consumer.FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
    asked.replica_state, asked.tags = state, {"replica_state"}
    passed = authorize(asked, 15, "Read topic orders", topics=IDS)
    assert not passed.is_as_it_came
    assert passed.sent.topics[0].topic_id == ORDERS


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_needs_describe(version: int) -> None:
    topic = consumer.ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=3, timestamp=-1)
    topics = [topic(name=name, partitions=[partition]) for name in ("orders", "secret")]
    asked = consumer.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
    passed = authorize(asked, version, "Write topic orders", response=consumer.ListOffsetsResponse(topics=[]))
    assert [topic.name for topic in passed.sent.topics] == ["orders"]
    assert codes(passed.response.topics) == {"secret": [TOPIC]}
    assert passed.response.topics[0].partitions[0].offset == -1


# -- topics ----------------------------------------------------------------------------------------------------------


def create(*names: str) -> Any:
    topic = admin.CreateTopicsRequest.CreatableTopic
    topics = [topic(name=n, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for n in names]
    return admin.CreateTopicsRequest(topics=topics, timeout_ms=1, validate_only=False)


def created(name: str) -> Any:
    topic = admin.CreateTopicsResponse.CreatableTopicResult
    config = topic.CreatableTopicConfigs(name="a", value="b", read_only=False, config_source=5, is_sensitive=False)
    result = topic(
        name=name, topic_id=ORDERS, error_code=0, error_message=None, num_partitions=1, replication_factor=1,
        configs=[config],
    )  # fmt: skip
    return admin.CreateTopicsResponse(throttle_time_ms=0, topics=[result])


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize("grant", ["Create cluster", "Create topic ord*"])
def test_create_topics_needs_create_on_the_cluster_or_topic(grant: str, version: int) -> None:
    found = authorize(create("orders", HIDDEN), version, grant, response=created("orders"))
    assert [topic.name for topic in found.sent.topics] == ["orders"]
    assert {topic.name: topic.error_code for topic in found.response.topics} == {"orders": 0, HIDDEN: TOPIC}
    if version >= 5:
        assert found.response.topics[0].configs == []
        assert found.response.topics[0].topic_config_error_code == TOPIC
        told = authorize(create("orders"), version, grant, "DescribeConfigs topic orders", response=created("orders"))
        assert len(told.response.topics[0].configs) == 1
        assert not told.response.topics[0].topic_config_error_code


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_needs_delete(version: int) -> None:
    state = admin.DeleteTopicsRequest.DeleteTopicState
    names = ["orders", "secret", HIDDEN]
    asked = admin.DeleteTopicsRequest(topic_names=names, topics=[state(name=name) for name in names], timeout_ms=1)
    empty = admin.DeleteTopicsResponse(throttle_time_ms=0, responses=[])
    found = authorize(asked, version, "Delete topic orders", response=empty)
    sent = found.sent.topic_names if version < 6 else [topic.name for topic in found.sent.topics]
    assert sent == ["orders"]
    assert {each.name: each.error_code for each in found.response.responses} == {"secret": TOPIC, HIDDEN: TOPIC}


def test_topic_id_is_not_resolved_without_describe() -> None:
    state = admin.DeleteTopicsRequest.DeleteTopicState
    asked = admin.DeleteTopicsRequest(topics=[state(topic_id=each) for each in (ORDERS, SECRET, UNKNOWN)], timeout_ms=1)
    found = authorize(asked, 6, "Read topic orders", topics=IDS)
    assert found.sent is None
    assert [(each.name, each.topic_id, each.error_code) for each in found.response.responses] == [
        ("orders", ORDERS, TOPIC),
        (None, SECRET, TOPIC),
        (None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_describing_all_topics_returns_the_visible_ones() -> None:
    """They are requested by name, so that the broker's cursor refers to no other topic."""
    topic = admin.DescribeTopicPartitionsRequest.TopicRequest
    everything = admin.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10, cursor=None)
    seen = authorize(everything, 0, "Read topic *", "Deny Describe topic secret", topics=IDS)
    assert [each.name for each in seen.sent.topics] == ["orders"]
    none = authorize(everything, 0, topics=IDS)
    assert none.sent is None
    assert none.response.topics == []
    assert not none.security.denials
    named = admin.DescribeTopicPartitionsRequest(
        topics=[topic(name="orders"), topic(name="secret")], response_partition_limit=10, cursor=None
    )
    found = admin.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    orders = found(error_code=0, name="orders", topic_id=ORDERS, partitions=[], topic_authorized_operations=0xFFF)
    response = admin.DescribeTopicPartitionsResponse(topics=[orders], next_cursor=None)
    passed = authorize(named, 0, "Read topic orders", response=response)
    assert {each.name: each.error_code for each in passed.response.topics} == {"orders": 0, "secret": TOPIC}
    assert passed.response.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8


def test_description_continues_behind_a_cursor_whose_topic_is_not_sent() -> None:
    """The cursor's topic was deleted, or the caller lost its right; a broker continues, too, for all topics."""
    request = admin.DescribeTopicPartitionsRequest
    cursor = request._struct.fields["cursor"].data_class
    topics = dict(zip("abcd", (ORDERS, SECRET, UNKNOWN, uuid.uuid4()), strict=True))

    def sent(at: str, *names: str, partition: int = 3) -> tuple[list[str], tuple[str, int] | None] | None:
        asked = request(
            topics=[request.TopicRequest(name=name) for name in names],
            response_partition_limit=10,
            cursor=cursor(topic_name=at, partition_index=partition),
        )
        found = authorize(asked, 0, "Describe topic *", "Deny Describe topic c", topics=topics).sent
        if found is None:
            return None
        at_now = None if found.cursor is None else (found.cursor.topic_name, found.cursor.partition_index)
        return [each.name for each in found.topics], at_now

    assert sent("b") == (["a", "b", "d"], ("b", 3))
    assert sent("aa") == (["b", "d"], None)
    assert sent("c") == (["d"], None)
    assert sent("e") is None
    assert sent("c", "a", "c", "d") == (["d"], None)
    assert sent("b", "a", "b", "c") == (["a", "b"], ("b", 3))
    assert sent("x", "a", "c") == (["a"], ("x", 3))
    assert sent("aa", partition=-1) == (["a", "b", "d"], ("aa", -1))


# -- groups and offsets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_class", "response_class"),
    [
        (consumer.JoinGroupRequest, consumer.JoinGroupResponse),
        (consumer.HeartbeatRequest, consumer.HeartbeatResponse),
        (consumer.LeaveGroupRequest, consumer.LeaveGroupResponse),
        (consumer.SyncGroupRequest, consumer.SyncGroupResponse),
    ],
    ids=["join", "heartbeat", "leave", "sync"],
)
def test_group_members_need_read_on_their_group(request_class: Any, response_class: Any) -> None:
    low, high = request_class.valid_versions
    for version in range(low, high + 1):
        asked = request_class(version=version, group_id="g")
        assert authorize(asked, version, "Read group g").is_as_it_came
        refused = authorize(asked, version, "Describe group g")
        assert refused.sent is None
        assert refused.response.error_code == GROUP


def test_groups_are_described_with_the_operations_of_the_caller() -> None:
    found = admin.DescribeGroupsResponse.DescribedGroup
    asked = admin.DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    group = found(error_code=0, group_id="g", members=[], authorized_operations={3, 6, 8})
    response = admin.DescribeGroupsResponse(throttle_time_ms=0, groups=[group])
    passed = authorize(asked, 5, "Read group g", response=response)
    assert passed.sent.groups == ["g"]
    assert {each.group_id: each.error_code for each in passed.response.groups} == {"g": 0, "h": GROUP}
    assert passed.response.groups[0].authorized_operations == {3, 8}


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_commit_needs_read_on_group_and_topic(version: int) -> None:
    topic = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(partition_index=3, committed_offset=1, committed_metadata="")
    topics = [topic(name=name, partitions=[partition]) for name in ("orders", "secret")]
    asked = consumer.OffsetCommitRequest(version=version, group_id="g", member_id="", topics=topics)
    response = consumer.OffsetCommitResponse(topics=[])
    passed = authorize(asked, version, "Read group g", "Read topic orders", response=response)
    assert [each.name for each in passed.sent.topics] == ["orders"]
    assert codes(passed.response.topics) == {"secret": [TOPIC]}
    refused = authorize(asked, version, "Describe group g", "Read topic *")
    assert refused.sent is None
    assert codes(refused.response.topics) == {"orders": [GROUP], "secret": [GROUP]}


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_of_one_group(version: int) -> None:
    topic = consumer.OffsetFetchRequest.OffsetFetchRequestTopic
    topics = [topic(name=name, partition_indexes=[3]) for name in ("orders", "secret")]
    asked = consumer.OffsetFetchRequest(version=version, group_id="g", topics=topics)
    response = consumer.OffsetFetchResponse(topics=[])
    passed = authorize(asked, version, "Read group g", "Read topic orders", response=response)
    assert [each.name for each in passed.sent.topics] == ["orders"]
    assert codes(passed.response.topics) == {"secret": [TOPIC]}
    refused = authorize(asked, version, "Read topic *")
    assert refused.sent is None
    if version >= 2:
        assert refused.response.error_code == GROUP
    else:
        assert codes(refused.response.topics) == {"orders": [GROUP], "secret": [GROUP]}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offset_fetch_of_several_groups(version: int) -> None:
    group = consumer.OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics

    def topics(*names: str) -> list[Any]:
        return [topic(name=name, topic_id=IDS[name], partition_indexes=[3]) for name in names]

    groups = [
        group(group_id="both", topics=topics("orders", "secret")),
        group(group_id="nothing left", topics=topics("secret")),
        group(group_id="all", topics=None),
        group(group_id="not mine", topics=None),
    ]
    asked = consumer.OffsetFetchRequest(version=version, groups=groups, require_stable=False)
    found = consumer.OffsetFetchResponse.OffsetFetchResponseGroup
    named = found.OffsetFetchResponseTopics
    everything = [named(name=name, topic_id=topic_id, partitions=[]) for name, topic_id in IDS.items()]
    response = consumer.OffsetFetchResponse(
        groups=[found(group_id="both", topics=everything[:1]), found(group_id="all", topics=everything)]
    )
    grants = ("Read topic orders", *(f"Describe group {name}" for name in ("both", "all")))
    passed = authorize(asked, version, *grants, "Describe group noth*", topics=IDS, response=response)
    assert [each.group_id for each in passed.sent.groups] == ["both", "all"]
    answers = {each.group_id: each for each in passed.response.groups}
    key = "name" if version < 10 else "topic_id"
    orders, secret = ("orders", "secret") if version < 10 else (ORDERS, SECRET)
    assert codes(answers["both"].topics, key) == {orders: [], secret: [TOPIC]}
    assert codes(answers["nothing left"].topics, key) == {secret: [TOPIC]}
    assert codes(answers["all"].topics, key) == {orders: []}
    assert answers["not mine"].error_code == GROUP
    nobody = authorize(asked, version, topics=IDS)
    assert nobody.sent is None
    assert {each.error_code for each in nobody.response.groups} == {GROUP}


def test_consumer_group_member_needs_describe_on_its_subscription() -> None:
    asked = messages.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders", "secret"]
    )
    refused = authorize(asked, 1, "Read group g", "Read topic orders")
    assert (refused.sent, refused.response.error_code) == (None, TOPIC)
    assert authorize(asked, 1, "Read topic *").response.error_code == GROUP
    hidden = messages.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=[HIDDEN])
    assert authorize(hidden, 1, acl=False).response.error_code == TOPIC


def test_regular_expression_assigns_only_visible_topics() -> None:
    answer = messages.ConsumerGroupHeartbeatResponse
    part = answer.Assignment.TopicPartitions
    asked = messages.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_regex=".*")
    grants = ("Read group g", "Read topic orders")

    def assigned() -> Any:
        parts = [part(topic_id=topic_id, partitions=[0]) for topic_id in (ORDERS, SECRET, ROWS)]
        return answer(member_id="m", assignment=answer.Assignment(topic_partitions=parts))

    passed = authorize(asked, 1, *grants, topics=IDS, response=assigned())
    assert [each.topic_id for each in passed.response.assignment.topic_partitions] == [ORDERS]
    without = authorize(asked, 1, acl=False, topics=IDS, response=assigned())
    assert [each.topic_id for each in without.response.assignment.topic_partitions] == [ORDERS, SECRET]
    nothing_new = authorize(asked, 1, *grants, response=answer(member_id="m", assignment=None))
    assert nothing_new.response.assignment is None


def test_group_is_described_only_if_all_its_topics_are_visible() -> None:
    answer = messages.ConsumerGroupDescribeResponse
    group = answer.DescribedGroup
    nothing = group.Member.Assignment(topic_partitions=[])

    def described(name: str, *topics: str) -> Any:
        member = group.Member(subscribed_topic_names=list(topics), assignment=nothing, target_assignment=nothing)
        return group(group_id=name, members=[member], authorized_operations=0xFFF)

    asked = messages.ConsumerGroupDescribeRequest(group_ids=["g", "h", "i"], include_authorized_operations=True)
    response = answer(groups=[described("g", "orders"), described("h", "orders", "secret")])
    passed = authorize(asked, 1, "Read group g", "Read group h", "Read topic orders", response=response)
    assert passed.sent.group_ids == ["g", "h"]
    answers = {each.group_id: (each.error_code, len(each.members)) for each in passed.response.groups}
    assert answers == {"g": (0, 1), "h": (TOPIC, 0), "i": (GROUP, 0)}
    assert passed.response.groups[0].authorized_operations == 1 << 3 | 1 << 8


def streams(*, internal: str = "app-changelog") -> Any:
    topology = messages.StreamsGroupHeartbeatRequest.Topology
    part = topology.Subtopology
    subtopology = part(
        subtopology_id="0", source_topics=["orders"], source_topic_regex=[], repartition_sink_topics=[],
        state_changelog_topics=[part.TopicInfo(name=internal, topic_configs=[])], repartition_source_topics=[],
        copartition_groups=[],
    )  # fmt: skip
    return messages.StreamsGroupHeartbeatRequest(
        group_id="app", member_id="m", topology=topology(epoch=1, subtopologies=[subtopology]), user_endpoint=None
    )


def test_streams_group_needs_create_on_new_internal_topics() -> None:
    grants = ("Read group app", "Read topic orders", "Read topic app*")
    refused = authorize(streams(), 0, *grants)
    assert (refused.sent, refused.response.error_code) == (None, TOPIC)
    assert refused.security.denials == [("CREATE", "topic", "app-changelog")]
    assert authorize(streams(), 0, *grants, "Create topic app*").is_as_it_came
    assert authorize(streams(), 0, *grants, topics={"app-changelog": UNKNOWN}).is_as_it_came
    assert authorize(streams(internal=HIDDEN), 0, acl=False).response.error_code == TOPIC


# -- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_idempotent_producer_needs_write_on_any_topic(version: int) -> None:
    asked = producer.InitProducerIdRequest(version=version, transactional_id=None, transaction_timeout_ms=1)
    for grant in ("Write topic orders", "IdempotentWrite cluster", "Write topic ord*"):
        assert authorize(asked, version, grant).is_as_it_came
    denied = authorize(asked, version, "Write topic orders", "Deny Write topic ord*")
    assert (denied.response.error_code, denied.response.producer_id) == (CLUSTER, -1)
    transactional = producer.InitProducerIdRequest(version=version, transactional_id="tx", transaction_timeout_ms=1)
    assert authorize(transactional, version, "Write transactional_id tx").is_as_it_came
    assert authorize(transactional, version, "Write topic *").response.error_code == TRANSACTIONAL_ID


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_to_a_transaction_all_or_none(version: int) -> None:
    topic = producer.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    asked = producer.AddPartitionsToTxnRequest(
        version=version,
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=[topic(name=name, partitions=[3]) for name in ("orders", "secret")],
    )
    grants = ("Write transactional_id tx", "Write topic orders")
    assert authorize(asked, version, *grants, "Write topic secret").is_as_it_came
    refused = authorize(asked, version, *grants)
    assert refused.sent is None
    results = refused.response.results_by_topic_v3_and_below
    assert codes(results, partitions="results_by_partition", code="partition_error_code") == {
        "orders": [ErrorCode.OPERATION_NOT_ATTEMPTED],
        "secret": [TOPIC],
    }


@pytest.mark.parametrize("version", [4, 5])
def test_versions_for_brokers_are_rejected(version: int) -> None:
    asked = producer.AddPartitionsToTxnRequest(version=version, transactions=[])
    for has_list in (False, True):
        with pytest.raises(UnknownVersionError):
            authorize(asked, version, "All cluster", acl=has_list)


def test_transactions_are_authorized_by_their_ids() -> None:
    state = admin.ListTransactionsResponse.TransactionState
    states = [state(transactional_id=name, producer_id=1, transaction_state="Ongoing") for name in ("tx", "other")]
    asked = admin.ListTransactionsRequest(version=1, state_filters=[], producer_id_filters=[])
    response = admin.ListTransactionsResponse(error_code=0, unknown_state_filters=[], transaction_states=states)
    listed = authorize(asked, 1, "Write transactional_id tx", response=response)
    assert [each.transactional_id for each in listed.response.transaction_states] == ["tx"]
    assert not listed.security.denials
    described = admin.DescribeTransactionsResponse.TransactionState
    topics = [described.TopicData(topic=name, partitions=[0]) for name in ("orders", "secret")]
    found = admin.DescribeTransactionsResponse(
        transaction_states=[described(transactional_id="tx", topics=topics, transaction_state="Ongoing")]
    )
    asked = admin.DescribeTransactionsRequest(transactional_ids=["tx", "other"])
    passed = authorize(asked, 0, "Write transactional_id tx", "Read topic orders", response=found)
    assert passed.sent.transactional_ids == ["tx"]
    (mine, other) = passed.response.transaction_states
    assert [topic.topic for topic in mine.topics] == ["orders"]
    assert (other.transactional_id, other.error_code) == ("other", TRANSACTIONAL_ID)


# -- the cluster -----------------------------------------------------------------------------------------------------


def test_every_entry_of_a_rejected_list_has_an_error() -> None:
    creation = admin.CreateAclsRequest.AclCreation
    asked = admin.CreateAclsRequest(version=3, creations=[creation(resource_name="t", principal="p", host="*")] * 2)
    refused = authorize(asked, 3, "Describe cluster")
    assert [each.error_code for each in refused.response.results] == [CLUSTER, CLUSTER]
    assert authorize(asked, 3, "Alter cluster").sent == asked
    deletion = admin.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    asked = admin.AlterUserScramCredentialsRequest(deletions=[deletion(name="bob", mechanism=1)], upsertions=[])
    assert [(each.user, each.error_code) for each in authorize(asked, 0).response.results] == [("bob", CLUSTER)]
    quota = admin.AlterClientQuotasRequest.EntryData
    entity = quota.EntityData(entity_type="user", entity_name="bob")
    asked = admin.AlterClientQuotasRequest(entries=[quota(entity=[entity], ops=[])], validate_only=False)
    (entry,) = authorize(asked, 1, "Alter cluster").response.entries
    assert (entry.error_code, entry.entity[0].entity_name) == (CLUSTER, "bob")


def acl_requests(name: str) -> list[tuple[Any, str]]:
    """Return ACL requests that name this topic and another one, each with the field of its results."""
    creation, deletion = admin.CreateAclsRequest.AclCreation, admin.DeleteAclsRequest.DeleteAclsFilter
    fields = {"principal": "User:bob", "host": "*", "operation": 3, "permission_type": 3}
    filters = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    return [
        (
            admin.CreateAclsRequest(
                creations=[
                    creation(resource_type=2, resource_name=each, resource_pattern_type=3, **fields)
                    for each in ("orders", name)
                ]
            ),
            "results",
        ),
        (
            admin.DeleteAclsRequest(
                filters=[
                    deletion(resource_type_filter=1, resource_name_filter=each, pattern_type_filter=1, **filters)
                    for each in (None, name)
                ]
            ),
            "filter_results",
        ),
        (
            admin.DescribeAclsRequest(
                resource_type_filter=2, resource_name_filter=name, pattern_type_filter=3, **filters
            ),
            "",
        ),
    ]


@pytest.mark.parametrize("has_list", [False, True])
def test_acls_cannot_name_internal_topics(has_list: bool) -> None:
    """All entries are rejected, because results have no names and must keep their positions."""
    for asked, results in acl_requests(HIDDEN):
        refused = authorize(asked, 3, "All cluster", acl=has_list)
        assert refused.sent is None
        found = getattr(refused.response, results) if results else [refused.response]
        assert [each.error_code for each in found] == [TOPIC] * (2 if results else 1)
        assert refused.security.denials == [("DESCRIBE", "topic", HIDDEN)]
    for asked, _ in acl_requests("secret"):
        assert authorize(asked, 3, "All cluster", acl=has_list).sent == asked


def test_acls_of_internal_topics_are_not_returned() -> None:
    resource = admin.DescribeAclsResponse.DescribeAclsResource
    kinds = [(2, "orders"), (2, HIDDEN), (3, HIDDEN)]
    found = [resource(resource_type=kind, resource_name=name, pattern_type=3, acls=[]) for kind, name in kinds]
    filters = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    asked = admin.DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, **filters
    )
    response = admin.DescribeAclsResponse(error_code=0, error_message=None, resources=found)
    shown = authorize(asked, 3, acl=False, response=response).response.resources
    assert [(each.resource_type, each.resource_name) for each in shown] == [(2, "orders"), (3, HIDDEN)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leader_elections_exclude_internal_topics(version: int) -> None:
    topic = admin.ElectLeadersRequest.TopicPartitions
    topics = [topic(topic=name, partitions=[3]) for name in ("orders", HIDDEN)]
    asked = admin.ElectLeadersRequest(topic_partitions=topics, timeout_ms=1)
    result = admin.ElectLeadersResponse.ReplicaElectionResult
    answered = [result(topic=name, partition_result=[]) for name in ("orders", HIDDEN)]
    response = admin.ElectLeadersResponse(replica_election_results=answered[:1])
    named = authorize(asked, version, "Alter cluster", response=response)
    assert [each.topic for each in named.sent.topic_partitions] == ["orders"]
    assert codes(named.response.replica_election_results, "topic", "partition_result") == {
        "orders": [],
        HIDDEN: [TOPIC],
    }
    everything = admin.ElectLeadersRequest(topic_partitions=None, timeout_ms=1)
    response = admin.ElectLeadersResponse(replica_election_results=answered)
    seen = authorize(everything, version, acl=False, response=response)
    assert [each.topic for each in seen.response.replica_election_results] == ["orders"]
    refused = authorize(asked, version, "Describe cluster")
    assert refused.sent is None
    assert codes(refused.response.replica_election_results, "topic", "partition_result")["orders"] == [CLUSTER]


def test_responses_about_all_topics_exclude_internal_topics() -> None:
    moving = admin.ListPartitionReassignmentsResponse.OngoingTopicReassignment
    response = admin.ListPartitionReassignmentsResponse(
        topics=[moving(name=name, partitions=[]) for name in ("orders", HIDDEN)]
    )
    asked = admin.ListPartitionReassignmentsRequest(timeout_ms=1, topics=None)
    assert [each.name for each in authorize(asked, 0, acl=False, response=response).response.topics] == ["orders"]
    log_dir = admin.DescribeLogDirsResponse.DescribeLogDirsResult
    topics = [log_dir.DescribeLogDirsTopic(name=name, partitions=[]) for name in ("orders", HIDDEN)]
    dirs = admin.DescribeLogDirsResponse(results=[log_dir(log_dir="/d", topics=topics)])
    shown = authorize(admin.DescribeLogDirsRequest(topics=None), 4, acl=False, response=dirs)
    assert [each.name for each in shown.response.results[0].topics] == ["orders"]


def test_internal_topics_are_not_moved_to_another_log_dir() -> None:
    log_dir = admin.AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = log_dir.AlterReplicaLogDirTopic
    topics = [topic(name=name, partitions=[3]) for name in ("orders", HIDDEN)]
    asked = admin.AlterReplicaLogDirsRequest(dirs=[log_dir(path="/d", topics=topics)])
    found = authorize(asked, 2, acl=False, response=admin.AlterReplicaLogDirsResponse(results=[]))
    assert [each.name for each in found.sent.dirs[0].topics] == ["orders"]
    assert codes(found.response.results, "topic_name") == {HIDDEN: [TOPIC]}


def test_without_a_list_other_requests_are_forwarded_unchanged() -> None:
    assert authorize(produce("orders", "secret"), 9, acl=False).is_as_it_came
    assert authorize(fetch("orders"), 12, acl=False).is_as_it_came
    assert not authorize(produce("orders", HIDDEN), 9, acl=False).is_as_it_came
