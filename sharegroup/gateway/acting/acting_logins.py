"""Logins that are forwarded to the brokers, and the clients that use the brokers with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sharegroup.config import Config
from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.acting.broker_rights import BrokerRights, Key
from sharegroup.gateway.acting.client_rights import ClientBrokers, ClientRights
from sharegroup.gateway.acting.exchanges import PASSED_ON, PassedOnExchange
from sharegroup.gateway.acting.named import Named, named_in
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_login import PASSED_ON_LOGIN, PassedOnLogin
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRefusedError
from sharegroup.security.acl import Resource
from sharegroup.security.authentication.sasl_exchange import LoginRefusedError, Mechanisms

#: Timeout of a login at a broker, including the connection.
LOGIN_TIMEOUT_S = 10.0


def check_settings(config: Config) -> None:
    """Raise InvalidConfigError if the configuration does not allow clients to use their own identity at the brokers."""
    gateway, protocol = config.gateway, config.job.kafka.get("security.protocol", "PLAINTEXT")
    problems = []
    if not protocol.startswith("SASL"):
        problems.append(f"security.protocol of the brokers is {protocol}; forwarding logins requires SASL")
    others = {
        "gateway.sasl.users.location": gateway.sasl_users,
        "gateway.sasl.oauthbearer.jwks.endpoint.url": gateway.token_keys,
        "gateway.acls.location": gateway.acls,
    }
    problems += [
        f"remove {key}, because the brokers authenticate and authorize clients" for key, set_ in others.items() if set_
    ]
    wrong = [name for name in gateway.sasl_mechanisms if name not in PASSED_ON]
    problems += [f"remove {name} from gateway.sasl.enabled.mechanisms; it cannot be forwarded" for name in wrong]
    if problems:
        raise InvalidConfigError("gateway", [f"gateway.upstream.identity is client: {problem}" for problem in problems])


class ActingLogins:
    """The logins and rights that all client connections share.

    `settings` are kafka-python's; their login is replaced by the client's. `share_groups` returns the share groups,
    which the brokers do not know. Raises InvalidConfigError.
    """

    def __init__(
        self,
        config: Config,
        settings: ClientSettings,
        cluster: UpstreamCluster,
        share_groups: Callable[[], Awaitable[Iterable[str]]],
        now_ms: Callable[[], int],
    ) -> None:
        check_settings(config)
        self._gateway, self._settings, self.cluster = config.gateway, settings, cluster
        self._share_groups, self._now_ms = share_groups, now_ms
        self.loop = asyncio.get_running_loop()
        self._users: dict[PassedOnLogin, tuple[ClientRights, int]] = {}

    def begin(self, node_id: int) -> ActingClient:
        """Return the client of a new connection to a broker's port."""
        return ActingClient(self, node_id)

    def mechanisms(self, log_in: Callable[[PassedOnLogin], int | None]) -> Mechanisms:
        """Return the mechanisms that can be forwarded, for the login of one client."""
        enabled: Sequence[str] = self._gateway.sasl_mechanisms or tuple(PASSED_ON)
        claim = self._gateway.token_claim
        return {
            name: partial(PassedOnExchange, name, partial(PASSED_ON[name], claim), log_in)
            for name in PASSED_ON
            if name in enabled
        }

    def settings_of(self, login: PassedOnLogin) -> ClientSettings:
        """Return kafka-python's settings for a client's connections."""
        return {**self._settings, PASSED_ON_LOGIN: login}

    async def try_login(self, login: PassedOnLogin, node_id: int) -> int | None:
        """Log in at a broker, or at another one if it is unavailable. Return when the session expires, None for never.

        Raises LoginRejectedError, and UpstreamUnavailableError if no broker is available.
        """
        problem: Exception | None = None
        for each in (node_id, *(other for other in self.cluster.node_ids if other != node_id)):
            try:
                address = self.cluster.address(each)
                begun_ms = self._now_ms()
                connect = UpstreamConnection.connect(*address, self.settings_of(login))
                connection = await asyncio.wait_for(connect, LOGIN_TIMEOUT_S)
            except UpstreamLoginRefusedError as error:
                raise LoginRefusedError("the brokers rejected the login", str(error)) from None
            except (TimeoutError, UpstreamUnavailableError) as error:
                problem = error
            else:
                connection.close()
                lifetime_ms = connection.session_lifetime_ms
                return begun_ms + lifetime_ms if lifetime_ms else None
        raise UpstreamUnavailableError(f"no broker is available to verify a login: {problem}")

    def join(self, login: PassedOnLogin, names: Iterable[Key] = ()) -> ClientRights:
        """Return the rights of a user, which its connections share and release with `release_rights`.

        `names` are queried, too.
        """
        rights, count = self._users.get(login, (None, 0))
        if rights is None:
            rights = ClientRights(ClientBrokers(self.cluster, self.settings_of(login)), self._share_groups)
        rights.expect(names)
        self._users[login] = rights, count + 1
        return rights

    def leave(self, login: PassedOnLogin) -> None:
        """Release the rights of a user for a connection that closes or changes its login."""
        rights, count = self._users.pop(login)
        if count > 1:
            self._users[login] = rights, count - 1
        else:
            rights.close()


class ActingClient:
    """The client of one connection."""

    def __init__(self, shared: ActingLogins, node_id: int) -> None:
        self._shared, self._node_id = shared, node_id
        self._login: PassedOnLogin | None = None
        self._rights: ClientRights | None = None
        self._is_closed = False
        self.mechanisms = shared.mechanisms(self._log_in)

    @property
    def settings(self) -> ClientSettings | None:
        """kafka-python's settings with the client's login, None before the login."""
        return None if self._login is None else self._shared.settings_of(self._login)

    async def rights(self, body: Any, version: int) -> BrokerRights:
        """Return the client's rights on the resources of a request. Raises UpstreamUnavailableError."""
        if self._rights is None:
            return BrokerRights({})
        named = named_in(body, version)
        cluster = self._shared.cluster
        if any(cluster.topic_by_id(topic_id) is None for topic_id in named.topic_ids):
            await cluster.try_refresh()
        topics = [topic for topic_id in named.topic_ids if (topic := cluster.topic_by_id(topic_id)) is not None]
        by_id = {(Resource.TOPIC, topic.name) for topic in topics}
        missing = frozenset(name for name in named.creates if cluster.topic(name) is None)
        wanted = Named(named.keys | by_id, frozenset(), named.has_all_topics, named.has_all_groups, missing)
        return await self._rights.of(self._node_id, wanted)

    def close(self) -> None:
        """Release the rights when the connection closes."""
        self._is_closed = True
        if self._login is not None:
            self._shared.leave(self._login)
            self._login = self._rights = None

    def _log_in(self, login: PassedOnLogin) -> int | None:
        """Log in from a login thread, which waits for the event loop."""
        return asyncio.run_coroutine_threadsafe(self._try(login), self._shared.loop).result()

    async def _try(self, login: PassedOnLogin) -> int | None:
        valid_until_ms = await self._shared.try_login(login, self._node_id)
        if not self._is_closed and login != self._login:
            # A share session continues under the new login without naming its topics again.
            rights = self._shared.join(login, () if self._rights is None else self._rights.names)
            if self._login is not None:
                self._shared.leave(self._login)
            self._login, self._rights = login, rights
        return valid_until_ms
