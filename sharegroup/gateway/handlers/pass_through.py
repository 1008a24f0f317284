"""Requests that are not the gateway's: which of them clients may send, and their way to the upstream broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from sharegroup.gateway.handlers.api_versions import passed_through
from sharegroup.gateway.security.authorization import Authorization
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.kept_connection import ConnectBackoff
from sharegroup.gateway.upstream.passthrough import DELETE_TOPICS, Passthrough
from sharegroup.gateway.wire.headers import RequestHeader, UnknownVersionError
from sharegroup.gateway.wire.request import Caller
from sharegroup.topics.client_settings import ClientSettings

#: After a DeleteTopics: by then all brokers should know of it.
LOOK_AGAIN_S = 1.0


class PassThrough:
    """Checks the requests, and links clients to brokers. `settings` are kafka-python's, for the links."""

    def __init__(self, cluster: UpstreamCluster, settings: ClientSettings, security: Authorization) -> None:
        self._cluster, self._settings, self._security = cluster, settings, security
        self._backoffs: defaultdict[int, ConnectBackoff] = defaultdict(ConnectBackoff)
        self._looking: asyncio.Task[None] | None = None

    async def check(self, caller: Caller, header: RequestHeader) -> None:
        """Raises RequestError for a caller that may not send it, and UnknownVersionError for what is not offered.

        That is what the upstream broker does not have, and what clients are not to use of it.
        """
        self._security.pass_through(caller)
        offered = passed_through(await self._cluster.features(caller.node_id))
        low, high = offered.get(header.api_key, (0, -1))
        if not low <= header.api_version <= high:
            raise UnknownVersionError(f"request {header.api_key} of version {header.api_version} is not offered")

    def link(self, node_id: int) -> Passthrough:
        """A link to a broker, for one client."""
        address, backoff = self._cluster.address(node_id), self._backoffs[node_id]
        return Passthrough(address, self._settings, backoff, self._topics_changed)

    def close(self) -> None:
        """Look no more; the links are their clients' to close."""
        if self._looking is not None:
            self._looking.cancel()

    def _topics_changed(self, api_key: int) -> None:
        """Clients are to see it; after a DeleteTopics, fetches that wait for such a topic should end."""
        self._cluster.snapshots.forget()
        if api_key != DELETE_TOPICS:
            return
        self._cluster.doubt()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_again())

    async def _look_again(self) -> None:
        """At once, and once more when all brokers know what one has said."""
        await self._cluster.try_refresh()
        await asyncio.sleep(LOOK_AGAIN_S)
        await self._cluster.try_refresh()
