"""Rules for the APIs of brokers and the cluster. Most of them allow or reject the request as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.protocol import admin
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passing import needs
from sharegroup.gateway.passing.entries import TopicLists, add, split
from sharegroup.gateway.passing.rights import Need, Rights
from sharegroup.gateway.passing.rule import Case, Rule, rule, set_error, whole
from sharegroup.protocol import messages

_MOVED = TopicLists(admin.AlterPartitionReassignmentsResponse, answered="responses")
_ELECTED = TopicLists(
    admin.ElectLeadersResponse,
    asked="topic_partitions",
    name="topic",
    index="",
    answered="replica_election_results",
    answered_name="topic",
    answered_partitions="partition_result",
    answered_index="partition_id",
)
_MOVED_DIRS = TopicLists(admin.AlterReplicaLogDirsResponse, index="", answered="results", answered_name="topic_name")


def _each(need: Need, asked: str, answered: str, answer: Callable[[Any], Any], case: Case) -> None:
    """Require one right for all entries; if it is missing, the response has an error for each entry."""
    code = case.rights.refusal(need)
    if code is None:
        return
    errors = [answer(item) for item in getattr(case.body, asked)]
    for each in errors:
        each.error_code = int(code)
    case.refuse(lambda response: add(response, answered, errors))


def _with_topics(need: Need, lists: TopicLists, case: Case) -> None:
    """Require one right for the whole request, and reject internal topics of the job one by one."""
    code = case.rights.refusal(need)
    if code is not None:
        errors = lists.answers(getattr(case.body, lists.asked) or (), code)
        case.refuse(lambda response: _reject_with(response, code, lists.answered, errors))
    else:
        lists.take_out(case, lambda topic: case.rights.hidden(getattr(topic, lists.name)))


def _elect(case: Case) -> None:
    """A request without topics concerns all topics, so the response is filtered."""
    _with_topics(needs.ALTER_CLUSTER, _ELECTED, case)
    if case.passes and case.body.topic_partitions is None:
        case.change(lambda response: _show_elections(response, case.rights))


def _show_elections(response: Any, rights: Rights) -> None:
    results = response.replica_election_results
    response.replica_election_results = [result for result in results if rights.is_shown(result.topic)]


def _reject_with(response: Any, code: ErrorCode, answered: str, errors: list[Any]) -> None:
    set_error(response, code)
    add(response, answered, errors)


def _alter_log_dirs(case: Case) -> None:
    code = case.rights.refusal(needs.ALTER_CLUSTER)
    errors = []
    for log_dir in case.body.dirs:
        allowed, rejected = split(log_dir.topics, lambda topic: code or case.rights.hidden(topic.name))
        errors += [_MOVED_DIRS.answer(topic, why) for topic, why in rejected]
        case.keep(log_dir, "topics", allowed)
    if errors or code is not None:
        case.passes = code is None and any(log_dir.topics for log_dir in case.body.dirs)
        case.change(lambda response: add(response, "results", errors))


def _describe_log_dirs(case: Case) -> None:
    code = case.rights.refusal(needs.DESCRIBE_CLUSTER)
    if code is not None:
        case.refuse(lambda response: set_error(response, code))
    else:
        case.change(lambda response: _show_topics(response.results, case.rights))


def _list_reassignments(case: Case) -> None:
    code = case.rights.refusal(needs.DESCRIBE_CLUSTER)
    if code is not None:
        case.refuse(lambda response: set_error(response, code))
    else:
        case.change(lambda response: _show_topics([response], case.rights))


def _show_topics(parts: list[Any], rights: Rights) -> None:
    for part in parts:
        part.topics = [topic for topic in part.topics if rights.is_shown(topic.name)]


def _alter_scram(case: Case) -> None:
    code = case.rights.refusal(needs.ALTER_CLUSTER)
    if code is None:
        return
    result = admin.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    users = dict.fromkeys(change.name for change in (*case.body.deletions, *case.body.upsertions))
    errors = [result(user=user, error_code=int(code), error_message=None) for user in users]
    case.refuse(lambda response: add(response, "results", errors))


def _altered_quota(entry: Any) -> Any:
    """Return a result that names the same entity as the request's entry."""
    altered = admin.AlterClientQuotasResponse.EntryData
    named = altered.EntityData
    entity = [named(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
    return altered(entity=entity, error_message=None)


def _cluster(need: Need, request: type[ApiMessage] | None, response: type[ApiMessage]) -> Rule:
    return whole(request, response, {need: ""})


RULES: list[Rule] = [
    rule(
        admin.AlterReplicaLogDirsRequest,
        admin.AlterReplicaLogDirsResponse,
        (needs.ALTER_CLUSTER,),
        "each partition",
        _alter_log_dirs,
        names_topics=True,
    ),
    rule(
        admin.DescribeLogDirsRequest,
        admin.DescribeLogDirsResponse,
        (needs.DESCRIBE_CLUSTER,),
        "the response, which is empty before version 3",
        _describe_log_dirs,
        names_topics=True,
    ),
    *(
        _cluster(needs.ALL_ON_CLUSTER, None, response)
        for response in (
            messages.CreateDelegationTokenResponse,
            messages.RenewDelegationTokenResponse,
            messages.ExpireDelegationTokenResponse,
            messages.DescribeDelegationTokenResponse,
        )
    ),
    rule(
        admin.ElectLeadersRequest,
        admin.ElectLeadersResponse,
        (needs.ALTER_CLUSTER,),
        "the response and each partition",
        _elect,
        names_topics=True,
    ),
    rule(
        admin.AlterPartitionReassignmentsRequest,
        admin.AlterPartitionReassignmentsResponse,
        (needs.ALTER_CLUSTER,),
        "the response and each partition",
        partial(_with_topics, needs.ALTER_CLUSTER, _MOVED),
        names_topics=True,
    ),
    rule(
        admin.ListPartitionReassignmentsRequest,
        admin.ListPartitionReassignmentsResponse,
        (needs.DESCRIBE_CLUSTER,),
        "the response",
        _list_reassignments,
        names_topics=True,
    ),
    _cluster(needs.DESCRIBE_CLUSTER_CONFIGS, admin.DescribeClientQuotasRequest, admin.DescribeClientQuotasResponse),
    rule(
        admin.AlterClientQuotasRequest,
        admin.AlterClientQuotasResponse,
        (needs.ALTER_CLUSTER_CONFIGS,),
        "each entity",
        partial(_each, needs.ALTER_CLUSTER_CONFIGS, "entries", "entries", _altered_quota),
    ),
    _cluster(
        needs.DESCRIBE_CLUSTER,
        admin.DescribeUserScramCredentialsRequest,
        admin.DescribeUserScramCredentialsResponse,
    ),
    rule(
        admin.AlterUserScramCredentialsRequest,
        admin.AlterUserScramCredentialsResponse,
        (needs.ALTER_CLUSTER,),
        "each user",
        _alter_scram,
    ),
    _cluster(needs.DESCRIBE_CLUSTER, admin.DescribeQuorumRequest, admin.DescribeQuorumResponse),
    _cluster(needs.ALTER_CLUSTER, admin.UpdateFeaturesRequest, admin.UpdateFeaturesResponse),
    _cluster(needs.ALTER_CLUSTER, None, messages.UnregisterBrokerResponse),
    _cluster(needs.ALTER_CLUSTER, None, messages.AddRaftVoterResponse),
    _cluster(needs.ALTER_CLUSTER, None, messages.RemoveRaftVoterResponse),
    Rule("GetTelemetrySubscriptions", 71, (), "none is needed"),
    Rule("PushTelemetry", 72, (), "none is needed"),
]
