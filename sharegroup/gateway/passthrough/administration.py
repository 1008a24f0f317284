"""Rules for the APIs of brokers and the cluster. Most of these rules allow or reject a request as a whole."""

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.protocol import admin
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import TopicFields, append_entries, split_rejected
from sharegroup.gateway.passthrough.rights import Need, RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule, make_whole_request_rule, set_error
from sharegroup.protocol import messages

_MOVED = TopicFields(admin.AlterPartitionReassignmentsResponse, response_topics="responses")
_ELECTED = TopicFields(
    admin.ElectLeadersResponse,
    request_topics="topic_partitions",
    name="topic",
    index="",
    response_topics="replica_election_results",
    response_name="topic",
    response_partitions="partition_result",
    response_index="partition_id",
)
_MOVED_DIRS = TopicFields(
    admin.AlterReplicaLogDirsResponse, index="", response_topics="results", response_name="topic_name"
)


def _each(need: Need, asked: str, answered: str, answer: Callable[[Any], Any], case: RequestUnderCheck) -> None:
    """Require one right for the whole request. If the caller lacks it, the response has an error for each entry.

    `asked` is the name of the request field with the entries, and `answered` that of the response field. `answer`
    returns the response entry for an entry of the request. This function sets the error code in it.
    """
    code = case.rights.authorize(need)
    if code is None:
        return
    errors = [answer(item) for item in getattr(case.body, asked)]
    for each in errors:
        each.error_code = int(code)
    case.reject(lambda response: append_entries(response, answered, errors))


def _with_topics(need: Need, lists: TopicFields, case: RequestUnderCheck) -> None:
    """Require the right `need` for the whole request. If it is granted, reject the job's internal topics.

    If it is denied, nothing is forwarded, and the response has a top-level error and an error for each partition.
    """
    code = case.rights.authorize(need)
    if code is not None:
        errors = lists.topic_errors(getattr(case.body, lists.request_topics) or (), code)
        case.reject(lambda response: _reject_with(response, code, lists.response_topics, errors))
    else:
        lists.reject_topics(case, lambda topic: case.rights.reject_internal_topic(getattr(topic, lists.name)))


def _elect(case: RequestUnderCheck) -> None:
    """Authorize ElectLeaders.

    A request without topics concerns all topics. In this case, the job's internal topics are removed from the response.
    """
    _with_topics(needs.ALTER_CLUSTER, _ELECTED, case)
    if case.is_forwarded and case.body.topic_partitions is None:
        case.add_response_change(lambda response: _show_elections(response, case.rights))


def _show_elections(response: Any, rights: RequestRights) -> None:
    results = response.replica_election_results
    response.replica_election_results = [result for result in results if rights.is_shown(result.topic)]


def _reject_with(response: Any, code: ErrorCode, answered: str, errors: list[Any]) -> None:
    set_error(response, code)
    append_entries(response, answered, errors)


def _alter_log_dirs(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.ALTER_CLUSTER)
    errors = []
    for log_dir in case.body.dirs:
        allowed, rejected = split_rejected(
            log_dir.topics, lambda topic: code or case.rights.reject_internal_topic(topic.name)
        )
        errors += [_MOVED_DIRS.topic_error(topic, why) for topic, why in rejected]
        case.retain_entries(log_dir, "topics", allowed)
    if errors or code is not None:
        case.is_forwarded = code is None and any(log_dir.topics for log_dir in case.body.dirs)
        case.add_response_change(lambda response: append_entries(response, "results", errors))


def _describe_log_dirs(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.DESCRIBE_CLUSTER)
    if code is not None:
        case.reject_whole(code)
    else:
        case.add_response_change(lambda response: _show_topics(response.results, case.rights))


def _list_reassignments(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.DESCRIBE_CLUSTER)
    if code is not None:
        case.reject_whole(code)
    else:
        case.add_response_change(lambda response: _show_topics([response], case.rights))


def _show_topics(parts: list[Any], rights: RequestRights) -> None:
    for part in parts:
        part.topics = [topic for topic in part.topics if rights.is_shown(topic.name)]


def _alter_scram(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.ALTER_CLUSTER)
    if code is None:
        return
    result = admin.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    users = dict.fromkeys(change.name for change in (*case.body.deletions, *case.body.upsertions))
    errors = [result(user=user, error_code=int(code), error_message=None) for user in users]
    case.reject(lambda response: append_entries(response, "results", errors))


def _altered_quota(entry: Any) -> Any:
    """Return the response entry for an entry of an AlterClientQuotas request. Both name the same entity."""
    altered = admin.AlterClientQuotasResponse.EntryData
    named = altered.EntityData
    entity = [named(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
    return altered(entity=entity, error_message=None)


def _cluster(need: Need, message: type[ApiMessage]) -> Rule:
    return make_whole_request_rule(message, {need: ""})


RULES: list[Rule] = [
    make_rule(
        admin.AlterReplicaLogDirsRequest, (needs.ALTER_CLUSTER,), "each partition", _alter_log_dirs, names_topics=True
    ),
    make_rule(
        admin.DescribeLogDirsRequest,
        (needs.DESCRIBE_CLUSTER,),
        "the response, which is empty before version 3",
        _describe_log_dirs,
        names_topics=True,
    ),
    *(
        _cluster(needs.ALL_ON_CLUSTER, response)
        for response in (
            messages.CreateDelegationTokenResponse,
            messages.RenewDelegationTokenResponse,
            messages.ExpireDelegationTokenResponse,
            messages.DescribeDelegationTokenResponse,
        )
    ),
    make_rule(
        admin.ElectLeadersRequest, (needs.ALTER_CLUSTER,), "the response and each partition", _elect, names_topics=True
    ),
    make_rule(
        admin.AlterPartitionReassignmentsRequest,
        (needs.ALTER_CLUSTER,),
        "the response and each partition",
        partial(_with_topics, needs.ALTER_CLUSTER, _MOVED),
        names_topics=True,
    ),
    make_rule(
        admin.ListPartitionReassignmentsRequest,
        (needs.DESCRIBE_CLUSTER,),
        "the response",
        _list_reassignments,
        names_topics=True,
    ),
    _cluster(needs.DESCRIBE_CLUSTER_CONFIGS, admin.DescribeClientQuotasRequest),
    make_rule(
        admin.AlterClientQuotasRequest,
        (needs.ALTER_CLUSTER_CONFIGS,),
        "each entity",
        partial(_each, needs.ALTER_CLUSTER_CONFIGS, "entries", "entries", _altered_quota),
    ),
    _cluster(needs.DESCRIBE_CLUSTER, admin.DescribeUserScramCredentialsRequest),
    make_rule(admin.AlterUserScramCredentialsRequest, (needs.ALTER_CLUSTER,), "each user", _alter_scram),
    _cluster(needs.DESCRIBE_CLUSTER, admin.DescribeQuorumRequest),
    _cluster(needs.ALTER_CLUSTER, admin.UpdateFeaturesRequest),
    _cluster(needs.ALTER_CLUSTER, messages.UnregisterBrokerResponse),
    _cluster(needs.ALTER_CLUSTER, messages.AddRaftVoterResponse),
    _cluster(needs.ALTER_CLUSTER, messages.RemoveRaftVoterResponse),
    Rule("GetTelemetrySubscriptions", 71, (), "none is needed"),
    Rule("PushTelemetry", 72, (), "none is needed"),
]
