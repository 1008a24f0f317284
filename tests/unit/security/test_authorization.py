"""The access control list, and the rights that each request needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.errors import ErrorCode, InvalidConfigError, RequestError
from sharegroup.security.acl import Acl, AclEntry, Operation, Resource, load_acl
from sharegroup.security.authorization import Authorization, encode_operations
from sharegroup.security.caller import Caller

ALICE = Caller(1, 0, "10.0.0.1", "User:alice")
GROUP, TOPIC, CLUSTER, TRANSACTIONAL_ID = Resource.GROUP, Resource.TOPIC, Resource.CLUSTER, Resource.TRANSACTIONAL_ID


def acl(tmp_path: Path, text: str) -> Acl:
    path = tmp_path / "acl.yaml"
    path.write_text(text, encoding="utf-8")
    return load_acl(str(path))


def allowing(*grants: tuple[Resource, Operation]) -> Authorization:
    """Return an Authorization that grants alice these rights on group `g`, topic `t` and the cluster."""
    return Authorization(
        Acl(
            AclEntry.model_validate(
                {
                    "principal": "User:alice",
                    "resource": resource.value,
                    "operations": [operation.name],
                    **({} if resource is CLUSTER else {"name": resource.value[0]}),
                }
            )
            for resource, operation in grants
        )
    )


Call = Callable[[Authorization], object]
NEEDS: list[tuple[str, Call, list[tuple[Resource, Operation]]]] = [
    (
        "heartbeat",
        lambda a: a.authorize_heartbeat(ALICE, "g", ["t"]),
        [(GROUP, Operation.READ), (TOPIC, Operation.DESCRIBE)],
    ),
    ("heartbeat again", lambda a: a.authorize_heartbeat(ALICE, "g"), [(GROUP, Operation.READ)]),
    ("fetch", lambda a: a.authorize_fetch(ALICE, "g"), [(GROUP, Operation.READ)]),
    (
        "describe group",
        lambda a: a.authorize_describe_group(ALICE, "g", ["t"]),
        [(GROUP, Operation.DESCRIBE), (TOPIC, Operation.DESCRIBE)],
    ),
    ("alter offsets", lambda a: a.authorize_alter_offsets(ALICE, "g"), [(GROUP, Operation.READ)]),
    ("delete offsets", lambda a: a.authorize_delete_offsets(ALICE, "g"), [(GROUP, Operation.DELETE)]),
    ("delete group", lambda a: a.authorize_delete_group(ALICE, "g"), [(GROUP, Operation.DELETE)]),
    ("find coordinator", lambda a: a.authorize_find_coordinator(ALICE, GROUP, "g"), [(GROUP, Operation.DESCRIBE)]),
    (
        "find coordinator of a transaction",
        lambda a: a.authorize_find_coordinator(ALICE, TRANSACTIONAL_ID, "t"),
        [(TRANSACTIONAL_ID, Operation.DESCRIBE)],
    ),
    (
        "find coordinator of share-partitions",
        lambda a: a.authorize_find_coordinator(ALICE, CLUSTER, "g:t:0"),
        [(CLUSTER, Operation.CLUSTER_ACTION)],
    ),
    (
        "describe configs",
        lambda a: a.authorize_describe_configs(ALICE, GROUP, "g"),
        [(GROUP, Operation.DESCRIBE_CONFIGS)],
    ),
    ("alter configs", lambda a: a.authorize_alter_configs(ALICE, GROUP, "g"), [(GROUP, Operation.ALTER_CONFIGS)]),
    ("list configs", lambda a: a.authorize_list_config_resources(ALICE), [(CLUSTER, Operation.DESCRIBE_CONFIGS)]),
]


@pytest.mark.parametrize(("call", "grants"), [need[1:] for need in NEEDS], ids=[need[0] for need in NEEDS])
def test_request_needs_exactly_its_rights(call: Call, grants: list[tuple[Resource, Operation]]) -> None:
    call(allowing(*grants))
    for missing in grants:
        with pytest.raises(RequestError) as error:
            call(allowing(*(grant for grant in grants if grant != missing)))
        assert (
            error.value.code
            is {
                GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
                TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            }[missing[0]]
        )


@pytest.mark.parametrize(
    ("allowed", "implied"),
    [
        (Operation.READ, {Operation.READ, Operation.DESCRIBE}),
        (Operation.WRITE, {Operation.WRITE, Operation.DESCRIBE}),
        (Operation.DELETE, {Operation.DELETE, Operation.DESCRIBE}),
        (Operation.ALTER, {Operation.ALTER, Operation.DESCRIBE}),
        (Operation.DESCRIBE, {Operation.DESCRIBE}),
        (Operation.ALTER_CONFIGS, {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}),
        (Operation.ALL, set(Operation)),
    ],
)
def test_implied_operations(tmp_path: Path, allowed: Operation, implied: set[Operation]) -> None:
    rules = acl(tmp_path, f"[{{principal: 'User:a', resource: topic, name: t, operations: [{allowed.name}]}}]")
    assert {op for op in Operation if rules.allows("User:a", "h", op, TOPIC, "t")} == implied


def test_patterns_principals_and_hosts(tmp_path: Path) -> None:
    rules = acl(
        tmp_path,
        """
        - {principal: "User:alice", resource: group, name: orders, operations: [Read]}
        - {principal: "User:alice", resource: topic, prefix: ord, operations: [Read]}
        - {principal: "User:*", resource: topic, name: "*", operations: [describe_configs], host: 10.0.0.7}
        - {principal: "User:bob", resource: cluster, operations: [All]}
        """,
    )

    def allows(user: str, operation: Operation, resource: Resource, name: str, host: str = "10.0.0.1") -> bool:
        return rules.allows(f"User:{user}", host, operation, resource, name)

    assert allows("alice", Operation.READ, GROUP, "orders")
    assert not allows("alice", Operation.READ, GROUP, "orders2")
    assert not allows("bob", Operation.READ, GROUP, "orders")
    assert allows("alice", Operation.READ, TOPIC, "orders2")
    assert not allows("alice", Operation.READ, TOPIC, "or")
    assert allows("carol", Operation.DESCRIBE_CONFIGS, TOPIC, "anything", host="10.0.0.7")
    assert not allows("carol", Operation.DESCRIBE_CONFIGS, TOPIC, "anything")
    assert allows("bob", Operation.CLUSTER_ACTION, CLUSTER, "kafka-cluster")
    assert not allows("bob", Operation.READ, TOPIC, "orders")
    assert not allows("*", Operation.READ, GROUP, "orders")


def test_entry_that_denies_takes_precedence(tmp_path: Path) -> None:
    rules = acl(
        tmp_path,
        """
        - {principal: "User:alice", resource: topic, name: "*", operations: [All]}
        - {principal: "User:alice", resource: topic, prefix: secret-, operations: [Read], permission: Deny}
        - {principal: "User:*", resource: topic, name: salaries, operations: [All], permission: DENY}
        - {principal: "User:alice", resource: topic, name: tea, operations: [Write], permission: deny, host: 10.0.0.7}
        """,
    )

    def allows(operation: Operation, name: str, host: str = "10.0.0.1") -> bool:
        return rules.allows("User:alice", host, operation, TOPIC, name)

    assert allows(Operation.READ, "orders")
    assert not allows(Operation.READ, "secret-plans")
    assert allows(Operation.DESCRIBE, "secret-plans")  # denying Read does not deny the operations that it implies
    assert not allows(Operation.DESCRIBE, "salaries")
    assert allows(Operation.WRITE, "tea")
    assert not allows(Operation.WRITE, "tea", host="10.0.0.7")


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ("[]", False),
        ("[{principal: 'User:a', resource: topic, name: t, operations: [Write]}]", True),
        ("[{principal: 'User:a', resource: topic, name: t, operations: [Read]}]", False),
        ("[{principal: 'User:a', resource: topic, prefix: t, operations: [All]}]", True),
        ("[{principal: 'User:a', resource: topic, name: t, operations: [Write], host: elsewhere}]", False),
        (
            "[{principal: 'User:a', resource: topic, name: tea, operations: [Write]},"
            " {principal: 'User:*', resource: topic, prefix: t, operations: [Write], permission: Deny}]",
            False,
        ),
        (
            "[{principal: 'User:a', resource: topic, prefix: t, operations: [Write]},"
            " {principal: 'User:a', resource: topic, prefix: tea, operations: [Write], permission: Deny}]",
            True,
        ),
        (
            "[{principal: 'User:a', resource: topic, prefix: tea, operations: [Write]},"
            " {principal: 'User:a', resource: topic, name: tea, operations: [Write], permission: Deny}]",
            True,
        ),
        (
            "[{principal: 'User:a', resource: topic, name: '*', operations: [Write]},"
            " {principal: 'User:a', resource: topic, name: '*', operations: [Write], permission: Deny}]",
            False,
        ),
    ],
)
def test_operation_is_allowed_on_any_resource(tmp_path: Path, entries: str, is_allowed: bool) -> None:
    assert acl(tmp_path, entries).allows_any("User:a", "h", Operation.WRITE, TOPIC) is is_allowed


def test_internal_topics_are_not_accessible() -> None:
    for rules in (None, Acl([])):
        may = Authorization(rules, ["rows"])
        assert may.has_hidden_topics
        assert not may.is_shown("rows")
        assert not may.may_read(ALICE, "rows")
        assert not may.may_see(ALICE, "rows")
        assert not may.may_create(ALICE, "rows")
    assert Authorization(None, ["rows"]).may_read(ALICE, "orders")
    assert not Authorization(None).has_hidden_topics


def test_creating_a_topic_by_metadata_needs_create() -> None:
    assert allowing((CLUSTER, Operation.CREATE)).may_create(ALICE, "u")
    assert allowing((TOPIC, Operation.CREATE)).may_create(ALICE, "t")
    assert not allowing((TOPIC, Operation.CREATE)).may_create(ALICE, "u")


def test_denials_are_logged_once_and_only_if_requested(caplog: pytest.LogCaptureFixture) -> None:
    may = Authorization(Acl([]))
    with caplog.at_level("INFO"):
        may.may_see(ALICE, "t")
        may.may_see_group(ALICE, "g")
        assert not caplog.messages
        with pytest.raises(RequestError):
            may.authorize_fetch(dataclasses.replace(ALICE, api="ShareFetch"), "g")
    assert caplog.messages == [
        "access outcome=refused principal=User:alice address=10.0.0.1 api=ShareFetch operation=READ resource=group:g"
    ]


def test_topics_and_groups_are_authorized_one_by_one() -> None:
    may = allowing((TOPIC, Operation.READ), (GROUP, Operation.DELETE))
    assert may.may_read(ALICE, "t")
    assert not may.may_read(ALICE, "u")
    assert may.may_see(ALICE, "t")
    assert not may.may_see(ALICE, "u")
    assert may.may_see_group(ALICE, "g")
    assert not may.may_see_group(ALICE, "h")
    assert allowing((CLUSTER, Operation.DESCRIBE)).may_see_group(ALICE, "h")


def test_authorized_operations_are_encoded_as_bits() -> None:
    assert allowing((GROUP, Operation.DELETE)).operations(ALICE, GROUP, "g") == {6, 8}
    assert allowing((GROUP, Operation.DELETE)).operations(ALICE, GROUP, "h") == set()
    everything = {3, 6, 8, 10, 11}
    assert Authorization(None).operations(ALICE, GROUP, "g") == everything
    assert allowing((GROUP, Operation.ALL)).operations(ALICE, GROUP, "g") == everything
    assert Authorization(None).operations(ALICE, TOPIC, "t") == {3, 4, 5, 6, 7, 8, 10, 11}
    assert Authorization(None).operations(ALICE, CLUSTER) == {5, 7, 8, 9, 10, 11, 12}
    assert encode_operations({Operation.READ, Operation.DESCRIBE}) == 1 << 3 | 1 << 8


def test_no_list_allows_everything_and_an_empty_list_nothing(tmp_path: Path) -> None:
    for _, call, _ in NEEDS:
        call(Authorization(None))
        with pytest.raises(RequestError):
            call(Authorization(acl(tmp_path, "[]")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "must be a list"),
        ("", "must be a list"),
        ("[", "cannot be read"),
        ("[1]", "entry 1"),
        ("[{principal: alice, resource: group, name: g, operations: [Read]}]", "principal"),
        ("[{principal: 'User:a', resource: groups, name: g, operations: [Read]}]", "resource"),
        ("[{principal: 'User:a', resource: group, operations: [Read]}]", "either name or prefix"),
        ("[{principal: 'User:a', resource: group, name: g, prefix: g, operations: [Read]}]", "either name or prefix"),
        ("[{principal: 'User:a', resource: cluster, name: c, operations: [Read]}]", "neither name nor prefix"),
        ("[{principal: 'User:a', resource: group, prefix: '', operations: [Read]}]", "prefix"),
        ("[{principal: 'User:a', resource: group, name: g, operations: []}]", "operations"),
        ("[{principal: 'User:a', resource: group, name: g, operations: Read}]", "operations"),
        ("[{principal: 'User:a', resource: group, name: g, operations: [Reed]}]", "unknown operations: Reed"),
        ("[{principal: 'User:a', resource: group, name: g, operations: [Read], permission: no}]", "permission"),
        ("[{principal: 'User:a', resource: group, name: g, operations: [Read], deny: true}]", "deny"),
    ],
)
def test_invalid_list_is_rejected_as_a_whole(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfigError) as error:
        acl(tmp_path, text)
    assert problem in str(error.value)
