"""Rules for the APIs that create, delete, extend and describe topics."""

from typing import Any

from kafka.protocol import admin

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import reject_entries, topic_name
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security.acl import Resource
from sharegroup.security.authorization import encode_operations

#: The first version of DeleteTopics with topic ids, and the first version of CreateTopics that returns configs.
IDS_VERSION, CONFIGS_VERSION = 6, 5
NOT_ASKED_FOR = -2147483648


def _create_topics(case: RequestUnderCheck) -> None:
    created = admin.CreateTopicsResponse.CreatableTopicResult

    def answer(topic: Any, code: ErrorCode) -> Any:
        return created(
            name=topic.name,
            topic_id=NO_TOPIC_ID,
            error_code=int(code),
            error_message="Authorization failed.",
            num_partitions=-1,
            replication_factor=-1,
            configs=[],
        )

    reject_entries(
        case, "topics", lambda topic: case.rights.authorize(needs.CREATE_TOPIC, topic.name), "topics", answer
    )
    if case.version >= CONFIGS_VERSION and case.rights.has_list:
        case.add_response_change(lambda response: _without_configs(response, case.rights))


def _without_configs(response: Any, rights: RequestRights) -> None:
    """Remove the configs of each created topic from the response if the caller may not describe them.

    The topic's config error is then TOPIC_AUTHORIZATION_FAILED.
    """
    for topic in response.topics:
        if not topic.error_code and not rights.would_allow(needs.DESCRIBE_TOPIC_CONFIGS, topic.name):
            topic.configs, topic.num_partitions, topic.replication_factor = [], -1, -1
            topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic.tags = {"topic_config_error_code"}


def _delete_topics(case: RequestUnderCheck) -> None:
    deleted = admin.DeleteTopicsResponse.DeletableTopicResult

    def refusal(topic: Any) -> ErrorCode | None:
        name = topic_name(topic, case.version, "name", case.rights)
        return ErrorCode.UNKNOWN_TOPIC_ID if name is None else case.rights.authorize(needs.DELETE_TOPIC, name)

    def answer(topic: Any, code: ErrorCode) -> Any:
        """Return the response entry of a rejected topic.

        Its name is included if the request contains the name, or if the caller may describe the topic.
        """
        name = topic.name
        if name is None:
            known = topic_name(topic, case.version, "name", case.rights)
            name = known if known is not None and case.rights.would_allow(needs.DESCRIBE_TOPIC, known) else None
        return deleted(name=name, topic_id=topic.topic_id or NO_TOPIC_ID, error_code=int(code), error_message=None)

    if case.version >= IDS_VERSION:
        reject_entries(case, "topics", refusal, "responses", answer)
        return
    reject_entries(
        case,
        "topic_names",
        lambda name: case.rights.authorize(needs.DELETE_TOPIC, name),
        "responses",
        lambda name, code: deleted(name=name, topic_id=NO_TOPIC_ID, error_code=int(code), error_message=None),
    )


def _create_partitions(case: RequestUnderCheck) -> None:
    result = admin.CreatePartitionsResponse.CreatePartitionsTopicResult
    reject_entries(
        case,
        "topics",
        lambda topic: case.rights.authorize(needs.ALTER_TOPIC, topic.name),
        "results",
        lambda topic, code: result(name=topic.name, error_code=int(code), error_message=None),
    )


def _describe_topic_partitions(case: RequestUnderCheck) -> None:
    """Authorize DescribeTopicPartitions.

    A request for all topics is replaced by a request for those topics that the caller may describe. The cursor in the
    broker's response (the position for the next request) therefore refers to one of these topics.
    """
    found = admin.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    is_of_all = not case.body.topics
    if is_of_all:
        seen = [name for name in case.rights.all_topics() if case.rights.would_allow(needs.DESCRIBE_TOPIC, name)]
        case.body.topics = [admin.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(seen)]
        case.is_changed = True
    _begin_at_cursor(case, is_of_all)
    case.is_forwarded = bool(case.body.topics)
    reject_entries(
        case,
        "topics",
        lambda topic: case.rights.authorize(needs.DESCRIBE_TOPIC, topic.name),
        "topics",
        lambda topic, code: found(
            error_code=int(code),
            name=topic.name,
            topic_id=NO_TOPIC_ID,
            is_internal=False,
            partitions=[],
            topic_authorized_operations=NOT_ASKED_FOR,
        ),
    )
    if case.rights.has_list:
        case.add_response_change(lambda response: _with_operations(response, case.rights))


def _begin_at_cursor(case: RequestUnderCheck, is_of_all: bool) -> None:
    """Make the response continue after the cursor's topic if this topic is not forwarded to the broker.

    The cursor is the topic and partition at which the response continues. The broker rejects a cursor whose topic is
    not in the request. The gateway does not forward a topic that was deleted, or hidden from the client, after the
    client received the cursor. In this case, the cursor and all topics up to its topic are removed from the request.

    `is_of_all` is True if the client requests all topics. If it is False and the client itself left out the cursor's
    topic, the request does not change, so that the broker rejects the cursor.
    """
    body, cursor = case.body, case.body.cursor
    if cursor is None or cursor.partition_index < 0:  # the broker rejects a negative index
        return
    names = {topic.name for topic in body.topics}
    is_sent = cursor.topic_name in names and case.rights.would_allow(needs.DESCRIBE_TOPIC, cursor.topic_name)
    if not is_sent and (is_of_all or cursor.topic_name in names):
        body.topics = [topic for topic in body.topics if topic.name > cursor.topic_name]
        body.cursor, case.is_changed = None, True


def _with_operations(response: Any, rights: RequestRights) -> None:
    """Replace AuthorizedOperations in the response, which are the gateway's operations, by those of the caller."""
    for topic in response.topics:
        if not topic.error_code and topic.topic_authorized_operations != NOT_ASKED_FOR:
            topic.topic_authorized_operations = encode_operations(rights.operations(Resource.TOPIC, topic.name))


RULES: list[Rule] = [
    make_rule(
        admin.CreateTopicsRequest,
        (needs.CREATE_TOPIC, needs.DESCRIBE_TOPIC_CONFIGS),
        "each topic; without DescribeConfigs, the response has no configurations",
        _create_topics,
    ),
    make_rule(
        admin.DeleteTopicsRequest,
        (needs.DELETE_TOPIC, needs.DESCRIBE_TOPIC),
        "each topic; without Describe, a topic given by its id has no name",
        _delete_topics,
    ),
    make_rule(admin.CreatePartitionsRequest, (needs.ALTER_TOPIC,), "each topic", _create_partitions),
    make_rule(
        admin.DescribeTopicPartitionsRequest,
        (needs.DESCRIBE_TOPIC,),
        "each topic; left out of a response for all topics",
        _describe_topic_partitions,
    ),
]
