"""Clients with their own identity at the brokers: their logins, the queries for their rights, and the cached rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol import admin, metadata, sasl

from sharegroup.config import Config, parse_config
from sharegroup.errors import ErrorCode, InvalidConfigError
from sharegroup.gateway.client_identity import client_rights, forwarded_logins
from sharegroup.gateway.client_identity.broker_rights import CLUSTER, BrokerRights, Key
from sharegroup.gateway.client_identity.client_rights import FRESH_S, LAST_RESORT_S, ClientBrokers, ClientRights
from sharegroup.gateway.client_identity.exchanges import ForwardedExchange, user_of_password, user_of_token
from sharegroup.gateway.client_identity.forwarded_logins import ForwardedLogins, check_settings
from sharegroup.gateway.client_identity.required_resources import _RESOURCES_OF, RequiredResources, resources_of
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.wire.share_request_decoding import ShareAcknowledge, ShareFetch
from sharegroup.kafka_clients.connections.broker_login import ForwardedLogin
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol import messages
from sharegroup.security.acl import Operation, Resource
from sharegroup.security.authentication.sasl_exchange import LoginRejectedError
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from tests.harness.event_loop import advance, until
from tests.unit.gateway.logins import Issuer, bearer
from tests.unit.gateway.own_requests import OWN_REQUESTS, OWN_VERSIONS, bodies
from tests.unit.gateway.scripted_upstream import ScriptedUpstream
from tests.unit.gateway.wire_bytes import decode, request_frame

ORDERS: Key = (Resource.TOPIC, "orders")
BILLING: Key = (Resource.GROUP, "billing")
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, TOPIC_DENIED, GROUP_DENIED = 3, 5, 29, 30
TRANSACTION_DENIED, LOADING, INVALID_GROUP_ID = 53, 14, 24
READ, DESCRIBE = {int(Operation.READ), int(Operation.DESCRIBE)}, {int(Operation.DESCRIBE)}
DESCRIBE_GROUPS, FIND_COORDINATOR = 15, 10
FIRST, SECOND = (ForwardedLogin("OAUTHBEARER", token) for token in (b"first", b"second"))
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN_OF_GATEWAY = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{_PLAIN} required username="g" password="p";',
}


# -- the login ---------------------------------------------------------------------------------------------------------


def server(log_in: Callable[[ForwardedLogin], int | None]) -> SaslServer:
    return SaslServer({"PLAIN": lambda: ForwardedExchange("PLAIN", user_of_password, log_in)})


def test_login_message_is_forwarded_unchanged() -> None:
    seen: list[ForwardedLogin] = []
    login = server(lambda passed: seen.append(passed))
    assert login.choose_mechanism("PLAIN", 1, 0) is ErrorCode.NONE
    assert login.authenticate(b"\0alice\0secret", 0).error_code is ErrorCode.NONE
    assert seen == [ForwardedLogin("PLAIN", b"\0alice\0secret")]
    assert (login.principal, login.session_ends_ms) == ("User:alice", None)
    assert "secret" not in repr(seen[0])


def test_session_lifetime_is_that_of_the_brokers() -> None:
    login = server(lambda _: 9_000)
    login.choose_mechanism("PLAIN", 1, 0)
    assert login.authenticate(b"\0alice\0secret", 4_000).session_lifetime_ms == 5_000


def test_login_that_the_brokers_reject_is_rejected() -> None:
    def refuse(_: ForwardedLogin) -> None:
        raise LoginRejectedError("message", "reason")

    login = server(refuse)
    login.choose_mechanism("PLAIN", 1, 0)
    step = login.authenticate(b"\0alice\0a guess", 0)
    assert (step.error_code, step.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "message")
    assert (login.claimed_user, login.rejection, login.has_failed) == ("alice", "reason", True)


def test_unavailable_brokers_do_not_reject_a_login() -> None:
    def away(_: ForwardedLogin) -> None:
        raise UpstreamUnavailableError("unavailable")

    login = server(away)
    login.choose_mechanism("PLAIN", 1, 0)
    with pytest.raises(UpstreamUnavailableError):
        login.authenticate(b"\0alice\0secret", 0)
    assert not login.has_failed


@pytest.mark.parametrize("message", ["", "alice", "\0alice", "\0\0secret", "\0a\0b\0c", "bob\0alice\0secret"])
def test_malformed_message_is_not_forwarded(message: str) -> None:
    with pytest.raises(LoginRejectedError):
        user_of_password(message)


def test_user_is_read_from_the_claim_of_the_token() -> None:
    issuer = Issuer()
    assert user_of_token("sub", bearer(issuer.token()).decode()) == "alice"
    assert user_of_token("email", bearer(issuer.token(email="alice@example.com")).decode()) == "alice@example.com"
    for wrong in (bearer(issuer.token(sub=None)), bearer("opaque"), b"", bearer(issuer.token(), "bob")[:-1]):
        with pytest.raises(LoginRejectedError):
            user_of_token("sub", wrong.decode())


def acting_config(keys: Mapping[str, str] | None = None, kafka: Mapping[str, str] | None = None) -> Config:
    """Return a configuration with a SASL login, unless `kafka` has other settings."""
    job = {"bootstrap.servers": "b:1", "kafka": dict(LOGIN_OF_GATEWAY if kafka is None else kafka)}
    gateway = {**(keys or {}), "gateway.upstream.identity": "client"}
    return parse_config({"job": job, "gateway": gateway}, "test")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, None),
        ({"gateway.sasl.enabled.mechanisms": "PLAIN"}, None),
        ({"gateway.sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "remove SCRAM-SHA-512 from"),
        ({"gateway.sasl.users.location": "users.yaml"}, "remove gateway.sasl.users.location"),
        ({"gateway.acls.location": "acls.yaml"}, "remove gateway.acls.location"),
    ],
)
def test_settings_that_contradict_client_identity_are_rejected(keys: dict[str, str], problem: str | None) -> None:
    if problem is None:
        check_settings(acting_config(keys))
    else:
        with pytest.raises(InvalidConfigError, match=problem):
            check_settings(acting_config(keys))
    with pytest.raises(InvalidConfigError, match="forwarding logins requires SASL"):
        check_settings(acting_config(keys, kafka={}))


# -- what a request names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("message", "version"), OWN_VERSIONS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_resources_are_found_in_any_decoded_request(message: Any, version: int) -> None:
    @settings(max_examples=20)
    @given(bodies(message, version))
    def check(body: Any) -> None:
        named = resources_of(decode(message, request_frame(body, version)), version)
        assert all(isinstance(name, str) and name for _, name in named.keys)

    check()


def test_every_handled_request_has_its_resources() -> None:
    without_rights = {metadata.ApiVersionsRequest, sasl.SaslHandshakeRequest, sasl.SaslAuthenticateRequest}
    decoded_by_hand = {messages.ShareFetchRequest, messages.ShareAcknowledgeRequest}
    assert set(OWN_REQUESTS) - without_rights - decoded_by_hand | {ShareFetch, ShareAcknowledge} == set(_RESOURCES_OF)


def test_resources_of_metadata_for_all_and_for_some_topics() -> None:
    topic = metadata.MetadataRequest.MetadataRequestTopic
    every = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=True)
    assert resources_of(every, 12) == RequiredResources(frozenset({CLUSTER}), has_all_topics=True)
    assert resources_of(metadata.MetadataRequest(topics=[], allow_auto_topic_creation=True), 0).has_all_topics
    topics = [topic(name="orders", topic_id=UUID(int=0)), topic(name=None, topic_id=UUID(int=7))]
    some = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    assert resources_of(some, 12) == RequiredResources(
        frozenset({CLUSTER, ORDERS}), frozenset({UUID(int=7)}), creates=frozenset({"orders"})
    )
    some.allow_auto_topic_creation = False
    assert not resources_of(some, 12).creates


# -- what counts -------------------------------------------------------------------------------------------------------


def test_resource_that_was_not_queried_is_not_allowed() -> None:
    rights = BrokerRights({ORDERS: READ}, frozenset({"shown"}))
    assert rights.allows(Operation.READ, "topic", "orders")
    assert not rights.allows(Operation.WRITE, "topic", "orders")
    assert not rights.allows(Operation.READ, "group", "orders")
    assert rights.allows(Operation.DESCRIBE, "group", "shown")
    assert not rights.allows(Operation.READ, "group", "shown")


def test_group_configs_use_cluster_rights_on_older_brokers() -> None:
    operations = {CLUSTER: {int(Operation.ALTER_CONFIGS)}}
    assert not BrokerRights(operations).allows(Operation.ALTER_CONFIGS, "group", "billing")
    older = BrokerRights(operations, has_group_configs=False)
    assert older.allows(Operation.ALTER_CONFIGS, "group", "billing")
    assert not older.allows(Operation.DESCRIBE_CONFIGS, "group", "billing")
    assert not older.allows(Operation.READ, "group", "billing")


def test_broker_rights_replace_the_list_and_hide_internal_topics() -> None:
    security = Authorization(None, ["__requests"])
    caller = Caller(1, 1, "h", "User:alice", rights=BrokerRights({ORDERS: READ, (Resource.TOPIC, "__requests"): READ}))
    assert security.may_read(caller, "orders")
    assert not security.may_read(caller, "__requests")
    assert not security.may_see(caller, "others")
    assert security.has_own_rights(caller)
    assert not security.has_own_rights(Caller(1, 1, "h"))


# -- what is asked -----------------------------------------------------------------------------------------------------


class Answers(ScriptedUpstream):
    """Brokers with `topics` and `groups`: {name: operations or error code}."""

    def __init__(self, topics: dict[str, Any], groups: dict[str, Any], **more: Any) -> None:
        self.topic_rights, self.group_rights = topics, groups
        self.listed: list[str] = []
        answers = {
            "MetadataRequest": self._metadata,
            "FindCoordinatorRequest": self._coordinator,
            "DescribeGroupsRequest": self._groups,
            "DescribeClusterRequest": lambda _: SimpleNamespace(error_code=0, authorized_operations=DESCRIBE),
            "ListGroupsRequest": lambda _: SimpleNamespace(
                groups=[SimpleNamespace(group_id=name) for name in self.listed]
            ),
        }
        super().__init__(answers, {FIND_COORDINATOR: 6, DESCRIBE_GROUPS: 6}, **more)

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def count(self, name: str) -> int:
        return sum(request.name == name for request in self.asked)

    def _metadata(self, request: Any) -> Any:
        names = list(self.topic_rights) if request.topics is None else [topic.name for topic in request.topics]
        return SimpleNamespace(topics=[self._entry(name, self.topic_rights, UNKNOWN_TOPIC) for name in names])

    def _groups(self, request: Any) -> Any:
        entries = [self._entry(name, self.group_rights, 0) for name in request.groups]
        return SimpleNamespace(groups=entries)

    @staticmethod
    def _entry(name: str, rights: dict[str, Any], otherwise: int) -> Any:
        found = rights.get(name, otherwise)
        code, operations = (found, ()) if isinstance(found, int) else (0, found)
        return SimpleNamespace(name=name, group_id=name, error_code=code, authorized_operations=operations)

    def _coordinator(self, request: Any) -> Any:
        denied = {"txn-denied": TRANSACTION_DENIED, "hidden": GROUP_DENIED}
        coordinators = [
            SimpleNamespace(key=key, node_id=1, error_code=denied.get(key, 0), error_message=None)
            for key in request.coordinator_keys
        ]
        return SimpleNamespace(coordinators=coordinators)


def rights_of(brokers: Answers, share_groups: Iterable[str] = ()) -> ClientRights:
    async def groups() -> Iterable[str]:
        return share_groups

    return ClientRights(cast(ClientBrokers, brokers), groups)


async def no_groups() -> Iterable[str]:
    return ()


def named(*keys: Key, **more: Any) -> RequiredResources:
    return RequiredResources(frozenset(keys), **more)


async def test_each_resource_type_has_its_own_query() -> None:
    brokers = Answers({"orders": READ, "denied": TOPIC_DENIED}, {"billing": READ, "hidden": READ, "no": GROUP_DENIED})
    kinds = Resource.TRANSACTIONAL_ID
    rights = await rights_of(brokers).get_rights(
        1,
        named(
            *(ORDERS, (Resource.TOPIC, "denied"), BILLING, (Resource.GROUP, "hidden"), (Resource.GROUP, "no")),
            *((kinds, "txn"), (kinds, "txn-denied"), CLUSTER),
        ),
    )
    assert rights.operations == {
        ORDERS: READ,
        (Resource.TOPIC, "denied"): (),
        BILLING: READ,
        (Resource.GROUP, "hidden"): (),
        (Resource.GROUP, "no"): (),
        (kinds, "txn"): (Operation.DESCRIBE,),
        (kinds, "txn-denied"): (),
        CLUSTER: DESCRIBE,
    }


async def test_all_names_are_queried_again_after_some_seconds() -> None:
    """A share session names its topics only once, but changes of their rights must be noticed."""
    brokers = Answers({"orders": READ}, {"billing": READ})
    rights = rights_of(brokers)
    for _ in range(3):
        await rights.get_rights(1, named(ORDERS, BILLING))
    assert (brokers.count("MetadataRequest"), brokers.count("DescribeGroupsRequest")) == (1, 1)
    brokers.topic_rights["orders"] = TOPIC_DENIED
    advance(FRESH_S)
    now = await rights.get_rights(1, named(BILLING))
    assert not now.allows(Operation.READ, "topic", "orders")
    assert now.allows(Operation.READ, "group", "billing")


async def test_names_of_an_earlier_login_are_queried_with_the_next_request() -> None:
    brokers = Answers({"orders": READ}, {"billing": READ})
    before, after = rights_of(brokers), rights_of(brokers)
    await before.get_rights(1, named(ORDERS, BILLING))
    after.add_names(before.names)
    assert set(after.names) == {ORDERS, BILLING}  # for the login after that
    assert (await after.get_rights(1, named(BILLING))).allows(Operation.READ, "topic", "orders")


async def test_names_of_an_earlier_login_are_queried_despite_fresh_rights() -> None:
    """Another connection just queried only the group, which is all that the continued session names."""
    brokers = Answers({"orders": READ}, {"billing": READ})
    rights = rights_of(brokers)
    await rights.get_rights(1, named(BILLING))
    rights.add_names([ORDERS, BILLING])
    for _ in range(2):
        assert (await rights.get_rights(1, named(BILLING))).allows(Operation.READ, "topic", "orders")
    assert brokers.count("MetadataRequest") == 1


async def test_names_of_an_earlier_login_are_queried_again_after_a_failure() -> None:
    """Fresh rights on the group do not replace the rights on the topics of its session."""
    brokers = Answers({"orders": LEADER_NOT_AVAILABLE}, {"billing": READ})
    rights = rights_of(brokers)
    await rights.get_rights(1, named(BILLING))
    rights.add_names([ORDERS])
    coming = asyncio.ensure_future(rights.get_rights(1, named(BILLING)))
    await _given_up(brokers, "MetadataRequest")
    with pytest.raises(UpstreamUnavailableError):
        await coming
    brokers.topic_rights["orders"] = READ
    assert (await rights.get_rights(1, named(BILLING))).allows(Operation.READ, "topic", "orders")


@pytest.mark.parametrize("another_was_first", [False, True])
async def test_share_session_continues_under_the_next_login(
    monkeypatch: pytest.MonkeyPatch, another_was_first: bool
) -> None:
    """A member renews its token. It may have opened another connection just before."""
    brokers = Answers({"orders": READ}, {"billing": READ})
    monkeypatch.setattr(forwarded_logins, "ClientBrokers", lambda *_: brokers)
    logins = ForwardedLogins(acting_config(), {}, cast(UpstreamCluster, brokers), no_groups, lambda: 0)
    before = logins.acquire_rights(FIRST)
    await before.get_rights(1, named(ORDERS, BILLING))
    if another_was_first:
        await logins.acquire_rights(SECOND).get_rights(1, named(BILLING))
    after = logins.acquire_rights(SECOND, before.names)
    logins.release_rights(FIRST)
    assert (await after.get_rights(1, named(BILLING))).allows(Operation.READ, "topic", "orders")


async def test_missing_topic_is_queried_each_time() -> None:
    brokers = Answers({}, {})
    rights = rights_of(brokers)
    early = await rights.get_rights(1, named(ORDERS))
    assert early.allows(Operation.DESCRIBE, "topic", "orders")  # otherwise the brokers would not report it as missing
    assert not early.allows(Operation.READ, "topic", "orders")
    brokers.topic_rights["orders"] = READ
    assert (await rights.get_rights(1, named(ORDERS))).allows(Operation.READ, "topic", "orders")


async def test_query_for_all_topics_replaces_earlier_rights() -> None:
    brokers = Answers({"orders": READ, "others": DESCRIBE}, {})
    rights = rights_of(brokers)
    assert (await rights.get_rights(1, named(has_all_topics=True))).operations.keys() >= {
        ORDERS,
        (Resource.TOPIC, "others"),
    }
    del brokers.topic_rights["others"]
    advance(FRESH_S)
    now = await rights.get_rights(1, named(has_all_topics=True))
    assert now.allows(Operation.READ, "topic", "orders")
    assert not now.allows(Operation.DESCRIBE, "topic", "others")


async def test_listing_groups_queries_the_rights_on_each() -> None:
    brokers = Answers({}, {"billing": READ, "hidden": GROUP_DENIED})
    brokers.listed = ["classic"]
    rights = rights_of(brokers, share_groups=["billing", "hidden"])
    found = await rights.get_rights(1, named(CLUSTER, has_all_groups=True))
    seen = [name for name in ("billing", "hidden", "classic", "others") if found.allows(8, "group", name)]
    assert seen == ["billing", "classic"]


async def test_failed_query_is_retried_and_earlier_rights_stay_in_use() -> None:
    brokers = Answers({}, {"billing": LOADING})
    rights = rights_of(brokers)
    coming = asyncio.ensure_future(rights.get_rights(1, named(BILLING)))
    await until(lambda: brokers.count("DescribeGroupsRequest") >= 2)
    brokers.group_rights["billing"] = READ
    assert (await coming).allows(Operation.READ, "group", "billing")
    brokers.group_rights["billing"] = LOADING
    advance(FRESH_S)
    old = asyncio.ensure_future(rights.get_rights(1, named(BILLING)))
    await _given_up(brokers)
    assert (await old).allows(Operation.READ, "group", "billing")
    advance(LAST_RESORT_S)
    late = asyncio.ensure_future(rights.get_rights(1, named(BILLING)))
    await _given_up(brokers)
    with pytest.raises(UpstreamUnavailableError):
        await late


async def _given_up(brokers: Answers, request: str = "DescribeGroupsRequest") -> None:
    """Advance the clock until the current query gives up."""
    before = brokers.count(request)
    await until(lambda: brokers.count(request) != before)
    advance(FRESH_S + 1)


async def test_invalid_name_does_not_affect_other_names() -> None:
    brokers = Answers({}, {"odd": INVALID_GROUP_ID, "billing": READ})
    found = await rights_of(brokers).get_rights(1, named(BILLING, (Resource.GROUP, "odd")))
    assert found.allows(Operation.READ, "group", "billing")
    assert not found.allows(Operation.DESCRIBE, "group", "odd")


async def test_listing_many_groups_does_not_evict_names_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rights, "MAX_NAMES", 5)
    brokers = Answers({"orders": READ}, {"billing": READ})
    rights = rights_of(brokers, share_groups=[f"group-{number}" for number in range(50)])
    await rights.get_rights(1, named(ORDERS, BILLING))
    await rights.get_rights(1, named(CLUSTER, has_all_groups=True))
    assert len(rights.names) == 3
    for _ in range(20):
        advance(FRESH_S)
        now = await rights.get_rights(1, named(BILLING))
    assert now.allows(Operation.READ, "topic", "orders")
    assert (Resource.GROUP, "group-1") not in now.operations  # it was not queried again


async def test_topic_is_created_with_the_login_of_the_client() -> None:
    brokers = Answers({"orders": READ}, {})
    await rights_of(brokers).get_rights(1, named(ORDERS, creates=frozenset({"orders"})))
    made = [request for request in brokers.asked if request.name == "MetadataRequest"]
    assert [request.allow_auto_topic_creation for request in made] == [True, False]


@given(st.lists(st.text(min_size=1, max_size=5), max_size=8, unique=True))
def test_every_name_gets_its_own_rights(names: list[str]) -> None:
    brokers = Answers({name: READ if place % 2 else TOPIC_DENIED for place, name in enumerate(names)}, {})
    found = asyncio.run(rights_of(brokers).get_rights(1, named(*((Resource.TOPIC, name) for name in names))))
    allowed = [name for name in names if found.allows(Operation.READ, "topic", name)]
    assert allowed == names[1::2]


def test_resources_of_admin_requests_are_their_groups() -> None:
    assert resources_of(admin.DeleteGroupsRequest(groups_names=["billing"]), 2).keys == {BILLING}
    lists = resources_of(admin.ListGroupsRequest(), 5)
    assert lists.has_all_groups
    assert CLUSTER in lists.keys
