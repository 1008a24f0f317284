"""Logins that are forwarded to the brokers, and connections to the brokers that use these logins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sharegroup.config import Config
from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.client_identity.broker_rights import BrokerRights, Key
from sharegroup.gateway.client_identity.client_rights import ClientBrokers, ClientRights
from sharegroup.gateway.client_identity.exchanges import FORWARDED_MECHANISMS, ForwardedExchange
from sharegroup.gateway.client_identity.required_resources import RequiredResources, resources_of
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_login import FORWARDED_LOGIN, ForwardedLogin
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError
from sharegroup.security.acl import Resource
from sharegroup.security.authentication.sasl_exchange import LoginRejectedError, Mechanisms

#: Timeout for connecting to a broker and logging in.
LOGIN_TIMEOUT_S = 10.0


def check_settings(config: Config) -> None:
    """Raise InvalidConfigError if other configs contradict `gateway.upstream.identity: client`.

    Logins can be forwarded only if the brokers use SASL and the mechanisms are PLAIN or OAUTHBEARER. The gateway must
    have no users, token keys or ACLs, because the brokers authenticate and authorize the clients.
    """
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
    wrong = [name for name in gateway.sasl_mechanisms if name not in FORWARDED_MECHANISMS]
    problems += [f"remove {name} from gateway.sasl.enabled.mechanisms; it cannot be forwarded" for name in wrong]
    if problems:
        raise InvalidConfigError(
            "gateway", [f"gateway.upstream.identity=client cannot be used: {problem}" for problem in problems]
        )


class ForwardedLogins:
    """The logins at the brokers and the cached rights of all clients.

    `settings` are kafka-python's settings with the gateway's login. For each client, they are copied with the client's
    login instead. `share_groups` returns the ids of the share groups, because the brokers cannot list them. The
    constructor calls `check_settings`, which may raise InvalidConfigError.
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
        self._users: dict[ForwardedLogin, tuple[ClientRights, int]] = {}

    def new_client(self, node_id: int) -> ClientIdentity:
        """Return the identity of a new client connection to the gateway's port for broker `node_id`."""
        return ClientIdentity(self, node_id)

    def create_mechanisms(self, log_in: Callable[[ForwardedLogin], int | None]) -> Mechanisms:
        """Return {enabled SASL mechanism: function that creates an exchange}.

        The exchanges verify the credentials of a client with `log_in`.
        """
        enabled: Sequence[str] = self._gateway.sasl_mechanisms or tuple(FORWARDED_MECHANISMS)
        claim = self._gateway.token_claim
        return {
            name: partial(ForwardedExchange, name, partial(FORWARDED_MECHANISMS[name], claim), log_in)
            for name in FORWARDED_MECHANISMS
            if name in enabled
        }

    def settings_for(self, login: ForwardedLogin) -> ClientSettings:
        """Return kafka-python's settings for connections to the brokers with a client's login."""
        return {**self._settings, FORWARDED_LOGIN: login}

    async def try_login(self, login: ForwardedLogin, node_id: int) -> int | None:
        """Verify a login: log in at broker `node_id`, or at another broker if that one is unavailable.

        Returns the end of the session in ms since the epoch, or None if the session never expires. Raises
        LoginRejectedError if a broker rejects the login, and UpstreamUnavailableError if no broker is available.
        """
        problem: Exception | None = None
        for each in (node_id, *(other for other in self.cluster.node_ids if other != node_id)):
            try:
                address = self.cluster.address(each)
                begun_ms = self._now_ms()
                connect = UpstreamConnection.connect(*address, self.settings_for(login))
                connection = await asyncio.wait_for(connect, LOGIN_TIMEOUT_S)
            except UpstreamLoginRejectedError as error:
                raise LoginRejectedError("the brokers rejected the login", str(error)) from None
            except (TimeoutError, UpstreamUnavailableError) as error:
                problem = error
            else:
                connection.close()
                lifetime_ms = connection.session_lifetime_ms
                return begun_ms + lifetime_ms if lifetime_ms else None
        raise UpstreamUnavailableError(f"no broker is available to verify a login: {problem}")

    def acquire_rights(self, login: ForwardedLogin, names: Iterable[Key] = ()) -> ClientRights:
        """Return the rights object for a login. All connections with the same login share this object.

        Each caller must release the object with `release_rights`. `names` are passed to `ClientRights.add_names`.
        """
        rights, count = self._users.get(login, (None, 0))
        if rights is None:
            rights = ClientRights(ClientBrokers(self.cluster, self.settings_for(login)), self._share_groups)
        rights.add_names(names)
        self._users[login] = rights, count + 1
        return rights

    def release_rights(self, login: ForwardedLogin) -> None:
        """Release the rights object of a login, because a connection is closed or has changed its login.

        When all callers of `acquire_rights` have released the object, it is closed.
        """
        rights, count = self._users.pop(login)
        if count > 1:
            self._users[login] = rights, count - 1
        else:
            rights.close()


class ClientIdentity:
    """The identity of one client connection at the brokers: the client's own login and rights."""

    def __init__(self, shared: ForwardedLogins, node_id: int) -> None:
        self._shared, self._node_id = shared, node_id
        self._login: ForwardedLogin | None = None
        self._rights: ClientRights | None = None
        self._is_closed = False
        self.mechanisms = shared.create_mechanisms(self._log_in)

    @property
    def settings(self) -> ClientSettings | None:
        """kafka-python's settings with the client's login; None until the client has logged in."""
        return None if self._login is None else self._shared.settings_for(self._login)

    async def get_rights(self, body: Any, version: int) -> BrokerRights:
        """Return the client's rights on the resources of a request. Before the login, the client has no rights.

        `body` is the request, and `version` is the version of its API. If the request may create missing topics, the
        brokers create them first. Raises UpstreamUnavailableError if the brokers do not return the rights.
        """
        if self._rights is None:
            return BrokerRights({})
        named = resources_of(body, version)
        cluster = self._shared.cluster
        if any(cluster.topic_by_id(topic_id) is None for topic_id in named.topic_ids):
            await cluster.try_refresh()
        topics = [topic for topic_id in named.topic_ids if (topic := cluster.topic_by_id(topic_id)) is not None]
        by_id = {(Resource.TOPIC, topic.name) for topic in topics}
        missing = frozenset(name for name in named.creates if cluster.topic(name) is None)
        wanted = RequiredResources(named.keys | by_id, frozenset(), named.has_all_topics, named.has_all_groups, missing)
        return await self._rights.get_rights(self._node_id, wanted)

    def close(self) -> None:
        """Release the rights object. Called when the connection closes."""
        self._is_closed = True
        if self._login is not None:
            self._shared.release_rights(self._login)
            self._login = self._rights = None

    def _log_in(self, login: ForwardedLogin) -> int | None:
        """Log in at the brokers, use this login for the connection from now on, and return the result of `try_login`.

        The login runs on the event loop, and this call blocks until it is done. It must therefore be called on a login
        thread.
        """
        return asyncio.run_coroutine_threadsafe(self._try(login), self._shared.loop).result()

    async def _try(self, login: ForwardedLogin) -> int | None:
        valid_until_ms = await self._shared.try_login(login, self._node_id)
        if not self._is_closed and login != self._login:
            # A share session continues under the new login without naming its topics again.
            rights = self._shared.acquire_rights(login, () if self._rights is None else self._rights.names)
            if self._login is not None:
                self._shared.release_rights(self._login)
            self._login, self._rights = login, rights
        return valid_until_ms
