"""Rules for the APIs that read, write and delete records or return their offsets, such as Produce and Fetch."""

from functools import partial

from kafka.protocol import admin, consumer, producer
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import TopicFields, append_entries
from sharegroup.gateway.passthrough.rights import Need
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule

NO_OFFSET = -1
#: The replica id of consumers. It replaces the replica ids of followers, because a broker returns more records to a
#: follower than consumers may see.
CONSUMER = -1
#: Epochs of fetch sessions (KIP-227): the epoch that opens a session, and the epoch of a request without a session.
FIRST_EPOCH, NO_SESSION_EPOCH = 0, -1
SESSIONS_VERSION = 7

_PRODUCED = TopicFields(
    producer.ProduceResponse,
    request_topics="topic_data",
    partitions="partition_data",
    index="index",
    response_topics="responses",
    response_partitions="partition_responses",
    response_index="index",
    blank={"base_offset": NO_OFFSET, "log_append_time_ms": NO_OFFSET, "log_start_offset": NO_OFFSET},
)
_FETCHED = TopicFields(
    consumer.FetchResponse,
    name="topic",
    index="partition",
    response_topics="responses",
    response_name="topic",
    blank={
        "high_watermark": NO_OFFSET,
        "last_stable_offset": NO_OFFSET,
        "log_start_offset": NO_OFFSET,
        "aborted_transactions": [],
        "preferred_read_replica": -1,
        "records": b"",
    },
)


def _produce(case: RequestUnderCheck) -> None:
    """Authorize Produce.

    With acks=0, there is no response. In this case, the connection is closed (RequestError) if any records are
    rejected, as in Kafka.
    """
    code = None
    if case.body.transactional_id is not None:
        code = case.rights.authorize(needs.WRITE_TRANSACTIONAL_ID, case.body.transactional_id)
    if code is not None:
        errors = _PRODUCED.topic_errors(case.body.topic_data, code)
        case.reject(lambda response: append_entries(response, "responses", errors))
    else:
        _PRODUCED.reject_topics(case, _PRODUCED.topic_check(case, needs.WRITE_TOPIC))
    if case.body.acks == 0 and case.changes:
        rejected = code or ErrorCode.TOPIC_AUTHORIZATION_FAILED
        raise RequestError(rejected, "Produce with acks=0 contains records that the client may not write")


def _fetch(case: RequestUnderCheck) -> None:
    """Authorize Fetch. If there are ACLs, fetch sessions are disabled.

    In a session, later requests do not name their partitions, so a client could continue to read after its right was
    withdrawn. Without a session, each request names all of its partitions. A request in an existing session gets an
    error, after which the client continues without this session.
    """
    if case.rights.has_list and case.version >= SESSIONS_VERSION:
        if case.body.session_epoch > FIRST_EPOCH:
            case.reject_whole(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return
        if case.body.session_epoch == FIRST_EPOCH:
            case.body.session_epoch = NO_SESSION_EPOCH
            case.is_changed = True
    _as_consumer(case)
    _FETCHED.reject_topics(case, _FETCHED.topic_check(case, needs.READ_TOPIC))
    if case.version >= SESSIONS_VERSION and case.body.session_epoch > FIRST_EPOCH:
        case.is_forwarded = True  # the session continues with its other partitions


def _as_consumer(case: RequestUnderCheck) -> None:
    if case.body.replica_id >= 0:
        case.body.replica_id = CONSUMER
        case.is_changed = True


def _check_consumer_topics(lists: TopicFields, need: Need, case: RequestUnderCheck) -> None:
    _as_consumer(case)
    lists.reject_topics(case, lists.topic_check(case, need))


def _topics(lists: TopicFields, need: Need, case: RequestUnderCheck) -> None:
    lists.reject_topics(case, lists.topic_check(case, need))


def _by_topic(request: type[ApiMessage], need: Need, lists: TopicFields, from_consumer: bool = False) -> Rule:
    judge = partial(_check_consumer_topics if from_consumer else _topics, lists, need)
    return make_rule(request, (need,), "each partition", judge)


RULES: list[Rule] = [
    make_rule(
        producer.ProduceRequest,
        (needs.WRITE_TRANSACTIONAL_ID, needs.WRITE_TOPIC),
        "each partition; with acks=0 the connection is closed",
        _produce,
    ),
    make_rule(consumer.FetchRequest, (needs.READ_TOPIC,), "each partition", _fetch),
    _by_topic(
        consumer.ListOffsetsRequest,
        needs.DESCRIBE_TOPIC,
        TopicFields(
            consumer.ListOffsetsResponse, blank={"timestamp": NO_OFFSET, "offset": NO_OFFSET, "leader_epoch": -1}
        ),
        from_consumer=True,
    ),
    _by_topic(
        consumer.OffsetForLeaderEpochRequest,
        needs.DESCRIBE_TOPIC,
        TopicFields(
            consumer.OffsetForLeaderEpochResponse,
            name="topic",
            index="partition",
            response_name="topic",
            response_index="partition",
            blank={"leader_epoch": -1, "end_offset": NO_OFFSET},
        ),
        from_consumer=True,
    ),
    _by_topic(
        admin.DeleteRecordsRequest,
        needs.DELETE_TOPIC,
        TopicFields(admin.DeleteRecordsResponse, blank={"low_watermark": NO_OFFSET}),
    ),
    _by_topic(
        admin.DescribeProducersRequest,
        needs.READ_TOPIC,
        TopicFields(
            admin.DescribeProducersResponse, partitions="partition_indexes", index="", blank={"active_producers": []}
        ),
    ),
]
