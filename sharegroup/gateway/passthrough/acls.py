"""Rules for the APIs that manage the brokers' ACLs.

A request that names an internal topic of the job is rejected. ACLs of such topics are removed from responses. A pattern
such as `*` is accepted, although it also matches internal topics, because every change of ACLs requires Alter on the
cluster.
"""

from collections.abc import Callable
from typing import Any

from kafka.protocol import admin

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough import needs
from sharegroup.gateway.passthrough.entries import append_entries
from sharegroup.gateway.passthrough.rights import RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck, Rule, make_rule

#: The resource types that match topics in a filter of ACLs.
ANY, TOPIC = 1, 2


def _describe(case: RequestUnderCheck) -> None:
    code = case.rights.authorize(needs.DESCRIBE_CLUSTER) or _hidden(
        case.rights, case.body.resource_type_filter, case.body.resource_name_filter
    )
    if code is not None:
        case.reject_whole(code)
    else:
        case.add_response_change(
            lambda response: setattr(response, "resources", _visible(response.resources, case.rights))
        )


def _create(case: RequestUnderCheck) -> None:
    named = [(item.resource_type, item.resource_name) for item in case.body.creations]
    answer = admin.CreateAclsResponse.AclCreationResult
    _reject_all(case, named, "results", lambda code: answer(error_code=code, error_message=None))


def _delete(case: RequestUnderCheck) -> None:
    named = [(item.resource_type_filter, item.resource_name_filter) for item in case.body.filters]
    answer = admin.DeleteAclsResponse.DeleteAclsFilterResult
    _reject_all(
        case, named, "filter_results", lambda code: answer(error_code=code, error_message=None, matching_acls=[])
    )
    if case.is_forwarded:
        case.add_response_change(lambda response: _hide_deleted(response, case.rights))


def _reject_all(
    case: RequestUnderCheck, named: list[tuple[int, str | None]], answered: str, answer: Callable[[int], Any]
) -> None:
    """Reject the whole request if the caller may not alter ACLs, or if an entry names an internal topic of the job.

    The allowed entries are not forwarded alone, because the client matches results to entries by position.

    `named` contains (resource type, resource name) of each entry. `answered` is the name of the response field for the
    results. `answer(error code)` returns the result for a rejected entry.
    """
    codes = (_hidden(case.rights, kind, name) for kind, name in named)
    code = case.rights.authorize(needs.ALTER_CLUSTER) or next((why for why in codes if why is not None), None)
    if code is not None:
        results = [answer(int(code)) for _ in named]
        case.reject(lambda response: append_entries(response, answered, results))


def _hidden(rights: RequestRights, resource_type: int, name: str | None) -> ErrorCode | None:
    """Return an error if an ACL pattern names an internal topic of the job, else None. Record the denial."""
    return rights.reject_internal_topic(name) if resource_type in (ANY, TOPIC) and name is not None else None


def _hide_deleted(response: Any, rights: RequestRights) -> None:
    for result in response.filter_results:
        result.matching_acls = _visible(result.matching_acls, rights)


def _visible(found: list[Any], rights: RequestRights) -> list[Any]:
    return [item for item in found if item.resource_type != TOPIC or rights.is_shown(item.resource_name)]


RULES: list[Rule] = [
    make_rule(admin.DescribeAclsRequest, (needs.DESCRIBE_CLUSTER,), "the response", _describe, names_topics=True),
    make_rule(admin.CreateAclsRequest, (needs.ALTER_CLUSTER,), "each entry", _create, names_topics=True),
    make_rule(admin.DeleteAclsRequest, (needs.ALTER_CLUSTER,), "each filter", _delete, names_topics=True),
]
