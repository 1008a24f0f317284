"""Clients who act at the brokers as themselves: what is passed on, what is asked there, and what then counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol import admin, metadata, sasl

from sharegroup.config import Config, parse_config
from sharegroup.errors import ErrorCode, InvalidConfigError
from sharegroup.gateway.acting import acting_logins, client_rights
from sharegroup.gateway.acting.acting_logins import ActingLogins, check_settings
from sharegroup.gateway.acting.broker_rights import CLUSTER, BrokerRights, Key
from sharegroup.gateway.acting.client_rights import FRESH_S, LAST_RESORT_S, ClientBrokers, ClientRights
from sharegroup.gateway.acting.exchanges import PassedOnExchange, user_of_password, user_of_token
from sharegroup.gateway.acting.named import _NAMED_IN, Named, named_in
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.gateway.wire.share_request_decoding import ShareAcknowledge, ShareFetch
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.broker_login import PassedOnLogin
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol import messages
from sharegroup.security.acl import Operation, Resource
from sharegroup.security.authentication.sasl_exchange import LoginRefusedError
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from tests.processes.loop_clock import advance
from tests.unit.gateway.logins import Issuer, bearer
from tests.unit.gateway.own_requests import OWN_REQUESTS, OWN_VERSIONS, bodies
from tests.unit.gateway.scripted_upstream import ScriptedUpstream

ORDERS: Key = (Resource.TOPIC, "orders")
BILLING: Key = (Resource.GROUP, "billing")
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, TOPIC_DENIED, GROUP_DENIED = 3, 5, 29, 30
TRANSACTION_DENIED, LOADING, INVALID_GROUP_ID = 53, 14, 24
READ, DESCRIBE = {int(Operation.READ), int(Operation.DESCRIBE)}, {int(Operation.DESCRIBE)}
DESCRIBE_GROUPS, FIND_COORDINATOR = 15, 10
FIRST, SECOND = (PassedOnLogin("OAUTHBEARER", token) for token in (b"first", b"second"))
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN_OF_GATEWAY = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{_PLAIN} required username="g" password="p";',
}


# -- the login ---------------------------------------------------------------------------------------------------------


def server(log_in: Callable[[PassedOnLogin], int | None]) -> SaslServer:
    return SaslServer({"PLAIN": lambda: PassedOnExchange("PLAIN", user_of_password, log_in)})


def test_the_message_goes_on_as_it_came() -> None:
    seen: list[PassedOnLogin] = []
    login = server(lambda passed: seen.append(passed))
    assert login.handshake("PLAIN", 1, 0) is ErrorCode.NONE
    assert login.authenticate(b"\0alice\0secret", 0).error_code is ErrorCode.NONE
    assert seen == [PassedOnLogin("PLAIN", b"\0alice\0secret")]
    assert (login.principal, login.session_ends_ms) == ("User:alice", None)
    assert "secret" not in repr(seen[0])


def test_the_session_ends_when_the_brokers_say_so() -> None:
    login = server(lambda _: 9_000)
    login.handshake("PLAIN", 1, 0)
    assert login.authenticate(b"\0alice\0secret", 4_000).session_lifetime_ms == 5_000


def test_what_the_brokers_refuse_is_refused() -> None:
    def refuse(_: PassedOnLogin) -> None:
        raise LoginRefusedError("told", "reason")

    login = server(refuse)
    login.handshake("PLAIN", 1, 0)
    step = login.authenticate(b"\0alice\0a guess", 0)
    assert (step.error_code, step.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "told")
    assert (login.claimed, login.refusal, login.has_failed) == ("alice", "reason", True)


def test_brokers_that_are_away_refuse_nobody() -> None:
    def away(_: PassedOnLogin) -> None:
        raise UpstreamUnavailableError("away")

    login = server(away)
    login.handshake("PLAIN", 1, 0)
    with pytest.raises(UpstreamUnavailableError):
        login.authenticate(b"\0alice\0secret", 0)
    assert not login.has_failed


@pytest.mark.parametrize("message", ["", "alice", "\0alice", "\0\0secret", "\0a\0b\0c", "bob\0alice\0secret"])
def test_a_message_that_is_none_is_not_passed_on(message: str) -> None:
    with pytest.raises(LoginRefusedError):
        user_of_password(message)


def test_a_token_says_whom_it_names() -> None:
    issuer = Issuer()
    assert user_of_token("sub", bearer(issuer.token()).decode()) == "alice"
    assert user_of_token("email", bearer(issuer.token(email="alice@example.com")).decode()) == "alice@example.com"
    for wrong in (bearer(issuer.token(sub=None)), bearer("opaque"), b"", bearer(issuer.token(), "bob")[:-1]):
        with pytest.raises(LoginRefusedError):
            user_of_token("sub", wrong.decode())


def acting_config(keys: Mapping[str, str] | None = None, kafka: Mapping[str, str] | None = None) -> Config:
    """With a login to pass on, unless `kafka` says otherwise."""
    job = {"bootstrap.servers": "b:1", "kafka": dict(LOGIN_OF_GATEWAY if kafka is None else kafka)}
    gateway = {**(keys or {}), "gateway.upstream.identity": "client"}
    return parse_config({"job": job, "gateway": gateway}, "test")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, None),
        ({"gateway.sasl.enabled.mechanisms": "PLAIN"}, None),
        ({"gateway.sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "SCRAM-SHA-512 cannot be passed on"),
        ({"gateway.sasl.users.location": "users.yaml"}, "gateway.sasl.users.location has no meaning"),
        ({"gateway.acls.location": "acls.yaml"}, "gateway.acls.location has no meaning"),
    ],
)
def test_settings(keys: dict[str, str], problem: str | None) -> None:
    if problem is None:
        check_settings(acting_config(keys))
    else:
        with pytest.raises(InvalidConfigError, match=problem):
            check_settings(acting_config(keys))
    with pytest.raises(InvalidConfigError, match="there is no login to pass on"):
        check_settings(acting_config(keys, kafka={}))


# -- what a request names ----------------------------------------------------------------------------------------------


def decoded(message: Any, version: int, body: Any) -> Any:
    frame = memoryview(bytes(wire.encode_request(body, version, 7, "client"))[4:])
    return decode_request(message, wire.read_header(frame), frame)


@pytest.mark.parametrize(("message", "version"), OWN_VERSIONS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_whatever_is_decoded_can_be_looked_at(message: Any, version: int) -> None:
    @settings(max_examples=20)
    @given(bodies(message, version))
    def check(body: Any) -> None:
        named = named_in(decoded(message, version, body), version)
        assert all(isinstance(name, str) and name for _, name in named.keys)

    check()


def test_every_request_that_is_answered_here_is_looked_at() -> None:
    without_rights = {metadata.ApiVersionsRequest, sasl.SaslHandshakeRequest, sasl.SaslAuthenticateRequest}
    decoded_by_hand = {messages.ShareFetchRequest, messages.ShareAcknowledgeRequest}
    assert set(OWN_REQUESTS) - without_rights - decoded_by_hand | {ShareFetch, ShareAcknowledge} == set(_NAMED_IN)


def test_metadata_of_all_topics_and_of_some() -> None:
    topic = metadata.MetadataRequest.MetadataRequestTopic
    every = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=True)
    assert named_in(every, 12) == Named(frozenset({CLUSTER}), has_all_topics=True)
    assert named_in(metadata.MetadataRequest(topics=[], allow_auto_topic_creation=True), 0).has_all_topics
    topics = [topic(name="orders", topic_id=UUID(int=0)), topic(name=None, topic_id=UUID(int=7))]
    some = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    assert named_in(some, 12) == Named(
        frozenset({CLUSTER, ORDERS}), frozenset({UUID(int=7)}), creates=frozenset({"orders"})
    )
    some.allow_auto_topic_creation = False
    assert not named_in(some, 12).creates


# -- what counts -------------------------------------------------------------------------------------------------------


def test_what_was_not_asked_for_is_not_allowed() -> None:
    rights = BrokerRights({ORDERS: READ}, frozenset({"shown"}))
    assert rights.allows(Operation.READ, "topic", "orders")
    assert not rights.allows(Operation.WRITE, "topic", "orders")
    assert not rights.allows(Operation.READ, "group", "orders")
    assert rights.allows(Operation.DESCRIBE, "group", "shown")
    assert not rights.allows(Operation.READ, "group", "shown")


def test_configs_of_groups_are_the_clusters_where_brokers_know_none() -> None:
    operations = {CLUSTER: {int(Operation.ALTER_CONFIGS)}}
    assert not BrokerRights(operations).allows(Operation.ALTER_CONFIGS, "group", "billing")
    older = BrokerRights(operations, has_group_configs=False)
    assert older.allows(Operation.ALTER_CONFIGS, "group", "billing")
    assert not older.allows(Operation.DESCRIBE_CONFIGS, "group", "billing")
    assert not older.allows(Operation.READ, "group", "billing")


def test_they_hold_in_place_of_a_list_and_hide_the_jobs_topics() -> None:
    security = Authorization(None, ["__requests"])
    caller = Caller(1, 1, "h", "User:alice", rights=BrokerRights({ORDERS: READ, (Resource.TOPIC, "__requests"): READ}))
    assert security.may_read(caller, "orders")
    assert not security.may_read(caller, "__requests")
    assert not security.may_see(caller, "others")
    assert security.judges(caller)
    assert not security.judges(Caller(1, 1, "h"))


# -- what is asked -----------------------------------------------------------------------------------------------------


class Answers(ScriptedUpstream):
    """Brokers with `topics` and `groups`: {name: operations, or the code of an error}."""

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
        """Nothing is open."""

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


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 1_000))  # type: ignore[arg-type]


def named(*keys: Key, **more: Any) -> Named:
    return Named(frozenset(keys), **more)


def test_each_kind_is_asked_for_as_the_brokers_tell_it() -> None:
    async def test() -> None:
        brokers = Answers(
            {"orders": READ, "denied": TOPIC_DENIED}, {"billing": READ, "hidden": READ, "no": GROUP_DENIED}
        )
        kinds = Resource.TRANSACTIONAL_ID
        rights = await rights_of(brokers).of(
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

    run(test)


def test_an_answer_counts_for_seconds_and_then_all_names_are_asked_for_again() -> None:
    """A share session names its topics once; what became of their rights must come to be known all the same."""

    async def test() -> None:
        brokers = Answers({"orders": READ}, {"billing": READ})
        rights = rights_of(brokers)
        for _ in range(3):
            await rights.of(1, named(ORDERS, BILLING))
        assert (brokers.count("MetadataRequest"), brokers.count("DescribeGroupsRequest")) == (1, 1)
        brokers.topic_rights["orders"] = TOPIC_DENIED
        advance(FRESH_S)
        now = await rights.of(1, named(BILLING))
        assert not now.allows(Operation.READ, "topic", "orders")
        assert now.allows(Operation.READ, "group", "billing")

    run(test)


def test_names_of_an_earlier_login_are_asked_for_with_what_a_request_names() -> None:
    async def test() -> None:
        brokers = Answers({"orders": READ}, {"billing": READ})
        before, after = rights_of(brokers), rights_of(brokers)
        await before.of(1, named(ORDERS, BILLING))
        after.expect(before.names)
        assert set(after.names) == {ORDERS, BILLING}  # for the login after that
        assert (await after.of(1, named(BILLING))).allows(Operation.READ, "topic", "orders")

    run(test)


def test_they_are_where_another_connection_came_first() -> None:
    """It has asked for the group alone, a moment ago; a session that goes on names no more than that either."""

    async def test() -> None:
        brokers = Answers({"orders": READ}, {"billing": READ})
        rights = rights_of(brokers)
        await rights.of(1, named(BILLING))
        rights.expect([ORDERS, BILLING])
        for _ in range(2):
            assert (await rights.of(1, named(BILLING))).allows(Operation.READ, "topic", "orders")
        assert brokers.count("MetadataRequest") == 1

    run(test)


def test_without_an_answer_they_are_not_refused_but_asked_for_again() -> None:
    """A group that was known a moment ago is no reason to go on without the topics of its session."""

    async def test() -> None:
        brokers = Answers({"orders": LEADER_NOT_AVAILABLE}, {"billing": READ})
        rights = rights_of(brokers)
        await rights.of(1, named(BILLING))
        rights.expect([ORDERS])
        coming = asyncio.ensure_future(rights.of(1, named(BILLING)))
        await _given_up(brokers, "MetadataRequest")
        with pytest.raises(UpstreamUnavailableError):
            await coming
        brokers.topic_rights["orders"] = READ
        assert (await rights.of(1, named(BILLING))).allows(Operation.READ, "topic", "orders")

    run(test)


@pytest.mark.parametrize("another_was_first", [False, True])
def test_a_session_goes_on_under_the_next_login(monkeypatch: pytest.MonkeyPatch, another_was_first: bool) -> None:
    """As of a member whose tokens are renewed; it may have opened another connection just before."""

    async def test() -> None:
        brokers = Answers({"orders": READ}, {"billing": READ})
        monkeypatch.setattr(acting_logins, "ClientBrokers", lambda *_: brokers)
        logins = ActingLogins(acting_config(), {}, cast(UpstreamCluster, brokers), no_groups, lambda: 0)
        before = logins.join(FIRST)
        await before.of(1, named(ORDERS, BILLING))
        if another_was_first:
            await logins.join(SECOND).of(1, named(BILLING))
        after = logins.join(SECOND, before.names)
        logins.leave(FIRST)
        assert (await after.of(1, named(BILLING))).allows(Operation.READ, "topic", "orders")

    run(test)


def test_a_topic_that_is_not_there_is_asked_for_each_time() -> None:
    async def test() -> None:
        brokers = Answers({}, {})
        rights = rights_of(brokers)
        early = await rights.of(1, named(ORDERS))
        assert early.allows(
            Operation.DESCRIBE, "topic", "orders"
        )  # else the brokers would not say that it is not there
        assert not early.allows(Operation.READ, "topic", "orders")
        brokers.topic_rights["orders"] = READ
        assert (await rights.of(1, named(ORDERS))).allows(Operation.READ, "topic", "orders")

    run(test)


def test_of_all_topics_those_count_that_were_in_the_answer() -> None:
    async def test() -> None:
        brokers = Answers({"orders": READ, "others": DESCRIBE}, {})
        rights = rights_of(brokers)
        assert (await rights.of(1, named(has_all_topics=True))).operations.keys() >= {
            ORDERS,
            (Resource.TOPIC, "others"),
        }
        del brokers.topic_rights["others"]
        advance(FRESH_S)
        now = await rights.of(1, named(has_all_topics=True))
        assert now.allows(Operation.READ, "topic", "orders")
        assert not now.allows(Operation.DESCRIBE, "topic", "others")

    run(test)


def test_a_list_of_groups_needs_the_rights_to_each() -> None:
    async def test() -> None:
        brokers = Answers({}, {"billing": READ, "hidden": GROUP_DENIED})
        brokers.listed = ["classic"]
        rights = rights_of(brokers, share_groups=["billing", "hidden"])
        found = await rights.of(1, named(CLUSTER, has_all_groups=True))
        seen = [name for name in ("billing", "hidden", "classic", "others") if found.allows(8, "group", name)]
        assert seen == ["billing", "classic"]

    run(test)


def test_a_question_without_an_answer_is_asked_again_and_what_was_known_counts_meanwhile() -> None:
    async def test() -> None:
        brokers = Answers({}, {"billing": LOADING})
        rights = rights_of(brokers)
        coming = asyncio.ensure_future(rights.of(1, named(BILLING)))
        while brokers.count("DescribeGroupsRequest") < 2:
            await asyncio.sleep(0.01)
        brokers.group_rights["billing"] = READ
        assert (await coming).allows(Operation.READ, "group", "billing")
        brokers.group_rights["billing"] = LOADING
        advance(FRESH_S)
        old = asyncio.ensure_future(rights.of(1, named(BILLING)))
        await _given_up(brokers)
        assert (await old).allows(Operation.READ, "group", "billing")
        advance(LAST_RESORT_S)
        late = asyncio.ensure_future(rights.of(1, named(BILLING)))
        await _given_up(brokers)
        with pytest.raises(UpstreamUnavailableError):
            await late

    run(test)


async def _given_up(brokers: Answers, request: str = "DescribeGroupsRequest") -> None:
    """The question that is asked now has been asked for long enough."""
    before = brokers.count(request)
    while brokers.count(request) == before:
        await asyncio.sleep(0.01)
    advance(FRESH_S + 1)


def test_a_name_that_the_brokers_cannot_take_is_nobody_elses_trouble() -> None:
    async def test() -> None:
        brokers = Answers({}, {"odd": INVALID_GROUP_ID, "billing": READ})
        found = await rights_of(brokers).of(1, named(BILLING, (Resource.GROUP, "odd")))
        assert found.allows(Operation.READ, "group", "billing")
        assert not found.allows(Operation.DESCRIBE, "group", "odd")

    run(test)


def test_a_list_of_many_groups_does_not_push_out_what_a_session_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rights, "MAX_NAMES", 5)

    async def test() -> None:
        brokers = Answers({"orders": READ}, {"billing": READ})
        rights = rights_of(brokers, share_groups=[f"group-{number}" for number in range(50)])
        await rights.of(1, named(ORDERS, BILLING))
        await rights.of(1, named(CLUSTER, has_all_groups=True))
        assert len(rights.names) == 3
        for _ in range(20):
            advance(FRESH_S)
            now = await rights.of(1, named(BILLING))
        assert now.allows(Operation.READ, "topic", "orders")
        assert (Resource.GROUP, "group-1") not in now.operations  # nobody asked again

    run(test)


def test_a_topic_is_made_in_the_clients_name() -> None:
    async def test() -> None:
        brokers = Answers({"orders": READ}, {})
        await rights_of(brokers).of(1, named(ORDERS, creates=frozenset({"orders"})))
        made = [request for request in brokers.asked if request.name == "MetadataRequest"]
        assert [request.allow_auto_topic_creation for request in made] == [True, False]

    run(test)


@given(st.lists(st.text(min_size=1, max_size=5), max_size=8, unique=True))
def test_whatever_names_there_are_each_has_its_own(names: list[str]) -> None:
    async def test() -> None:
        brokers = Answers({name: READ if place % 2 else TOPIC_DENIED for place, name in enumerate(names)}, {})
        found = await rights_of(brokers).of(1, named(*((Resource.TOPIC, name) for name in names)))
        allowed = [name for name in names if found.allows(Operation.READ, "topic", name)]
        assert allowed == names[1::2]

    run(test)


def test_admin_requests_name_their_groups() -> None:
    assert named_in(admin.DeleteGroupsRequest(groups_names=["billing"]), 2).keys == {BILLING}
    lists = named_in(admin.ListGroupsRequest(), 5)
    assert lists.has_all_groups
    assert CLUSTER in lists.keys
