"""Rules for the APIs of idempotent and transactional producers, and of transaction administration."""

from typing import Any

from kafka.protocol import admin, producer

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import (
    TopicFields,
    append_entries,
    entry_class,
    reject_entries,
    split_rejected,
)
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, first_error, make_rule, make_whole_request_rule

#: The newest version of AddPartitionsToTxn that clients use. Only brokers use newer versions.
CLIENTS_VERSION = 3

_COMMITTED = TopicFields(producer.TxnOffsetCommitResponse)
_ADDED = TopicFields(
    producer.AddPartitionsToTxnResponse,
    index="",
    response_topics="results_by_topic_v3_and_below",
    response_partitions="results_by_partition",
    error="partition_error_code",
)


def _init_producer_id(case: RequestUnderCheck) -> None:
    """Authorize InitProducerId.

    A transactional producer needs Write on its transactional id. Any other producer needs IdempotentWrite on the
    cluster, or Write on at least one topic (KIP-679).
    """
    if case.body.transactional_id is not None:
        code = case.rights.authorize(needs.WRITE_TRANSACTIONAL_ID, case.body.transactional_id)
    elif case.rights.would_allow_any(needs.WRITE_TOPIC):
        code = None
    else:
        code = case.rights.authorize(needs.IDEMPOTENT_WRITE)
    if code is not None:
        case.reject(lambda response: _no_producer(response, code))


def _no_producer(response: Any, code: ErrorCode) -> None:
    response.error_code, response.producer_id, response.producer_epoch = int(code), -1, -1


def _add_partitions(case: RequestUnderCheck) -> None:
    """Authorize AddPartitionsToTxn.

    If a topic is rejected, the request is not forwarded. The allowed topics then get OPERATION_NOT_ATTEMPTED.
    """
    topics = case.body.v3_and_below_topics
    code = case.rights.authorize(needs.WRITE_TRANSACTIONAL_ID, case.body.v3_and_below_transactional_id)
    if code is not None:
        errors = _ADDED.topic_errors(topics, code)
    else:
        allowed, rejected = split_rejected(topics, lambda topic: case.rights.authorize(needs.WRITE_TOPIC, topic.name))
        if not rejected:
            return
        errors = [_ADDED.topic_error(topic, why) for topic, why in rejected]
        errors += _ADDED.topic_errors(allowed, ErrorCode.OPERATION_NOT_ATTEMPTED)
    case.reject(lambda response: append_entries(response, "results_by_topic_v3_and_below", errors))


def _commit_offsets(case: RequestUnderCheck) -> None:
    wanted = {needs.WRITE_TRANSACTIONAL_ID: "transactional_id", needs.READ_GROUP: "group_id"}
    code = first_error(case, wanted)
    if code is not None:
        errors = _COMMITTED.topic_errors(case.body.topics, code)
        case.reject(lambda response: append_entries(response, "topics", errors))
    else:
        _COMMITTED.reject_topics(case, _COMMITTED.topic_check(case, needs.READ_TOPIC))


def _write_markers(case: RequestUnderCheck) -> None:
    """Authorize WriteTxnMarkers, with which an administrator ends a hanging transaction (KIP-664).

    As in Kafka, ClusterAction or Alter on the cluster is sufficient. Markers that name an internal topic of the job are
    rejected.
    """
    marker_class = entry_class(producer.WriteTxnMarkersResponse, "markers")
    markers = TopicFields(marker_class, partitions="partition_indexes", index="")
    code = None if case.rights.would_allow(needs.CLUSTER_ACTION) else case.rights.authorize(needs.ALTER_CLUSTER)

    def answer(marker: Any, why: ErrorCode) -> Any:
        return marker_class(producer_id=marker.producer_id, topics=markers.topic_errors(marker.topics, why))

    def hidden(marker: Any) -> ErrorCode | None:
        codes = (case.rights.reject_internal_topic(topic.name) for topic in marker.topics)
        return next((why for why in codes if why is not None), None)

    if code is not None:
        errors = [answer(marker, code) for marker in case.body.markers]
        case.reject(lambda response: append_entries(response, "markers", errors))
    else:
        reject_entries(case, "markers", hidden, "markers", answer)


def _describe(case: RequestUnderCheck) -> None:
    state = admin.DescribeTransactionsResponse.TransactionState
    reject_entries(
        case,
        "transactional_ids",
        lambda transactional_id: case.rights.authorize(needs.DESCRIBE_TRANSACTIONAL_ID, transactional_id),
        "transaction_states",
        lambda transactional_id, code: state(error_code=int(code), transactional_id=transactional_id, topics=[]),
    )
    case.add_response_change(lambda response: _leave_out_topics(response, case.rights))


def _leave_out_topics(response: Any, rights: RequestRights) -> None:
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if rights.would_allow(needs.DESCRIBE_TOPIC, topic.topic)]


def _list(case: RequestUnderCheck) -> None:
    if case.rights.has_list:
        case.add_response_change(lambda response: _leave_out_transactions(response, case.rights))


def _leave_out_transactions(response: Any, rights: RequestRights) -> None:
    seen = needs.DESCRIBE_TRANSACTIONAL_ID
    response.transaction_states = [
        state for state in response.transaction_states if rights.would_allow(seen, state.transactional_id)
    ]


RULES: list[Rule] = [
    make_rule(
        producer.InitProducerIdRequest,
        (needs.WRITE_TRANSACTIONAL_ID, needs.IDEMPOTENT_WRITE),
        "the response; without a transactional id, Write on any topic is enough",
        _init_producer_id,
    ),
    make_rule(
        producer.AddPartitionsToTxnRequest,
        (needs.WRITE_TRANSACTIONAL_ID, needs.WRITE_TOPIC),
        "each partition; the others get OPERATION_NOT_ATTEMPTED",
        _add_partitions,
        newest_version=CLIENTS_VERSION,
    ),
    make_whole_request_rule(
        producer.AddOffsetsToTxnRequest,
        {needs.WRITE_TRANSACTIONAL_ID: "transactional_id", needs.READ_GROUP: "group_id"},
    ),
    make_whole_request_rule(producer.EndTxnRequest, {needs.WRITE_TRANSACTIONAL_ID: "transactional_id"}),
    make_rule(
        producer.WriteTxnMarkersRequest,
        (needs.CLUSTER_ACTION, needs.ALTER_CLUSTER),
        "each partition; either right is enough",
        _write_markers,
        names_topics=True,
    ),
    make_rule(
        producer.TxnOffsetCommitRequest,
        (needs.WRITE_TRANSACTIONAL_ID, needs.READ_GROUP, needs.READ_TOPIC),
        "each partition",
        _commit_offsets,
    ),
    make_rule(
        admin.DescribeTransactionsRequest,
        (needs.DESCRIBE_TRANSACTIONAL_ID, needs.DESCRIBE_TOPIC),
        "each transaction; denied topics are left out",
        _describe,
    ),
    make_rule(
        admin.ListTransactionsRequest, (needs.DESCRIBE_TRANSACTIONAL_ID,), "denied transactions are left out", _list
    ),
]
