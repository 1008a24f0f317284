"""Requests that are allowed or refused as a whole, with one error code for the whole response."""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passing.rights import Need
from sharegroup.gateway.passing.rule import Case, Judge, Rule, rule
from sharegroup.security.acl import CLUSTER_NAME


def first_refusal(case: Case, wanted: dict[Need, str]) -> ErrorCode | None:
    """Why the request as a whole is refused: `wanted` are its needs, each with the request's field of the name."""
    for need, field in wanted.items():
        code = case.rights.refusal(need, getattr(case.body, field) if field else CLUSTER_NAME)
        if code is not None:
            return code
    return None


def whole(request: type[ApiMessage] | None, response: type[ApiMessage], wanted: dict[Need, str]) -> Rule:
    """The rule of an API that needs all of `wanted` ({need: the request's field with the name, "" for the cluster})."""
    return rule(request, response, tuple(wanted), "the response", judge_whole(wanted), names_topics=False)


def judge_whole(wanted: dict[Need, str]) -> Judge:
    """Refuses the request for the first need that is not met."""

    def judge(case: Case) -> None:
        code = first_refusal(case, wanted)
        if code is not None:
            case.refuse(lambda response: set_error(response, code))

    return judge


def set_error(response: Any, code: ErrorCode) -> None:
    """The error of a whole response."""
    response.error_code = int(code)
