"""ShareGroupDescribe: contents and authorization."""

from __future__ import annotations

from typing import Any

from sharegroup.config import Config, parse_config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.handlers.groups.describe_groups import ShareGroupDescribe
from sharegroup.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.security.authorization import Authorization
from sharegroup.storage import MemberDescription, ShareGroupDescription
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import EVERYTHING_ALLOWED, FixedTables, T, answer

MEMBER = MemberDescription("m", 3, "r1", "c", "/10.0.0.1", ("orders", "bills"), {"orders": (topic_id_text(T), (0, 2))})
GROUP = ShareGroupDescription("g", "Stable", 5, 4, (MEMBER,), ())
NOT_ASKED_FOR = -2147483648
DEFAULTS = Config()


def describe(
    *group_ids: str,
    with_operations: bool = False,
    security: Authorization = EVERYTHING_ALLOWED,
    config: Config = DEFAULTS,
) -> list[Any]:
    tables = FixedTables(described={"g": GROUP})
    handler = ShareGroupDescribe(tables, GroupConfigs(config, tables), security)
    request = ShareGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=with_operations)
    return list(answer(handler, request, ShareGroupDescribeResponse, 1).groups)


def test_group_is_described_with_its_member() -> None:
    (group,) = describe("g")
    assert (group.error_code, group.error_message, group.group_id, group.group_state) == (0, None, "g", "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (5, 4, "simple")
    assert group.authorized_operations == NOT_ASKED_FOR
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.rack_id) == ("m", 3, "r1")
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.1")
    assert member.subscribed_topic_names == ["orders", "bills"]
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.topic_id, assigned.partitions) == ("orders", T, [0, 2])


def test_described_assignor_is_the_groups_current_one() -> None:
    of_job = parse_config({"group": {"group.share.assignors": "all,simple"}}, "test")
    (group,) = describe("g", config=of_job)
    assert group.assignor_name == "all"
    of_group = parse_config(
        {"group": {"group.share.assignors": "all,simple"}, "groups": {"g": {"share.assignor": "simple"}}}, "test"
    )
    (group,) = describe("g", config=of_group)
    assert group.assignor_name == "simple"


def test_missing_groups_are_not_found() -> None:
    found = [(group.group_id, group.error_code, group.error_message) for group in describe("h", "", "g")]
    assert found == [("h", 69, "Group h not found."), ("", 24, "The group id is invalid."), ("g", 0, None)]


def test_describing_a_group_requires_describe_on_every_topic() -> None:
    def code(*grants: str) -> int:
        (group,) = describe("g", security=alice_may(*grants))
        assert bool(group.members) == (not group.error_code)
        return int(group.error_code)

    assert code() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert code("Describe group *") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code("Describe group *", "Describe topic orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code("Describe group *", "Describe topic *") == 0


def test_authorized_operations_of_a_group() -> None:
    (group,) = describe("g", with_operations=True, security=alice_may("Describe topic *", "Read group g"))
    assert group.authorized_operations == (1 << 3) + (1 << 8)


def test_unavailable_tables_are_an_error_per_group() -> None:
    tables = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    request = ShareGroupDescribeRequest(group_ids=["g", "h"], include_authorized_operations=False)
    handler = ShareGroupDescribe(tables, GroupConfigs(DEFAULTS, tables), EVERYTHING_ALLOWED)
    groups = answer(handler, request, ShareGroupDescribeResponse, 1).groups
    assert [(group.group_id, group.error_code) for group in groups] == [("g", 15), ("h", 15)]
