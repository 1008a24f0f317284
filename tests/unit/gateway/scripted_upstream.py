"""An upstream cluster with scripted responses, and the path of a request through a handler and back on the wire."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from sharegroup.errors import RequestError
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.upstream.cluster import Leader, Topic
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import RequestHeader
from sharegroup.kafka_clients.outage_log import OutageLogs
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    InvokeConsumerRebalanceRequest,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    DeleteGroupResponse,
    DeleteOffsetsResponse,
    InvokeConsumerRebalanceResponse,
    RemoveMembersResponse,
    ShareGroupResponse,
)
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from sharegroup.storage import GroupListing, ShareGroupDescription, SharePartitionOffset

ALICE = Caller(1, 1, "127.0.0.1", "User:alice")
EVERYTHING_ALLOWED = Authorization(None)
T = uuid.UUID(int=7)


class ScriptedUpstream:
    """A cluster with `answers` by request name, each a function of the request. An API without one is not supported.

    Brokers that are `away` do not respond.
    """

    def __init__(
        self,
        answers: Mapping[str, Callable[[Any], Any]] | None = None,
        versions: Mapping[int, int] | None = None,
        topics: Mapping[str, int] | None = None,
        node_ids: tuple[int, ...] = (1,),
        away: frozenset[int] = frozenset(),
    ) -> None:
        self.answers, self._versions, self.node_ids = dict(answers or {}), dict(versions or {}), list(node_ids)
        self._topics = {
            name: Topic(name, T, {index: Leader(1, 0) for index in range(count)})
            for name, count in (topics or {}).items()
        }
        self._away = away
        self.asked: list[Any] = []
        self.refreshed = 0
        self.log_end_outages = OutageLogs(logging.getLogger(__name__), "failed to list offsets", "offsets are listed")

    async def ask(self, node_id: int, request: Any, response: Any, max_version: int | None = None) -> Any:
        self._need(node_id)
        self.asked.append(request)
        answer = self.answers.get(request.name)
        if answer is None:
            raise UpstreamUnavailableError(f"no answer to {request.name}")
        return answer(request)

    async def features(self, node_id: int) -> Any:
        self._need(node_id)
        return SimpleNamespace(ranges={key: (0, version) for key, version in self._versions.items()})

    async def topics(self, names: Any) -> dict[str, Topic]:
        return {name: self._topics[name] for name in names if name in self._topics}

    async def newest_topics(self, names: Any) -> dict[str, Topic]:
        return await self.topics(names)

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    async def refresh(self) -> None:
        self.refreshed += 1

    async def try_refresh(self) -> bool:
        await self.refresh()
        return True

    def _need(self, node_id: int) -> None:
        if node_id in self._away:
            raise UpstreamUnavailableError(f"broker {node_id} is away")


class NoOtherGroups:
    """An upstream without groups: every name is free for a share group."""

    async def check_joined(self, node_id: int, group_id: str) -> None:
        """Accept every group."""

    async def is_only_share_group(self, node_id: int, group_id: str) -> bool:
        """Return False for every name."""
        return False


class FixedTables:
    """Fixed contents of the tables; if `error` is given, every method raises it."""

    def __init__(
        self,
        groups: Mapping[str, str] | None = None,
        described: Mapping[str, ShareGroupDescription] | None = None,
        offsets: tuple[SharePartitionOffset, ...] = (),
        configs: Mapping[str, dict[str, str]] | None = None,
        error: RequestError | None = None,
    ) -> None:
        self._groups, self._described, self._offsets = dict(groups or {}), dict(described or {}), offsets
        self.set_configs, self._error = dict(configs or {}), error

    async def listings(self) -> tuple[GroupListing, ...]:
        return self._or_error(tuple(GroupListing(*item) for item in self._groups.items()))

    async def describe(self, group_ids: Any) -> dict[str, ShareGroupDescription]:
        return self._or_error({name: self._described[name] for name in group_ids if name in self._described})

    async def offsets(self, group_ids: Any) -> dict[str, tuple[SharePartitionOffset, ...]]:
        return self._or_error(dict.fromkeys(group_ids, self._offsets))

    async def configs(self) -> dict[str, dict[str, str]]:
        return self._or_error(dict(self.set_configs))

    def _or_error(self, value: Any) -> Any:
        if self._error is not None:
            raise self._error
        return value


class RecordedRequests(GroupRequests):
    """Records rows to the group coordinator; `answers` by group, {} for success."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any] | RequestError] | None = None) -> None:
        super().__init__(cast(JobChannel, SimpleNamespace(new_id=lambda: "1", reply_to="gateway", ask=self._answer)))
        self._answers = dict(answers or {})
        self.rows: list[AdministratorRequest] = []

    async def _answer(self, row: AdministratorRequest) -> ShareGroupResponse:
        self.rows.append(row)
        answer = self._answers.get(row.group_id, {})
        if isinstance(answer, RequestError):
            answer = {"error_code": int(answer.code), "error_message": answer.message}
        return _RESPONSES[type(row)](row.id, row.reply_to, row.group_id, **answer)


_RESPONSES: dict[type[Any], type[Any]] = {
    AlterOffsetsRequest: AlterOffsetsResponse,
    DeleteOffsetsRequest: DeleteOffsetsResponse,
    DeleteGroupRequest: DeleteGroupResponse,
    AlterConfigsRequest: AlterConfigsResponse,
    InvokeConsumerRebalanceRequest: InvokeConsumerRebalanceResponse,
    RemoveMembersRequest: RemoveMembersResponse,
}


def answer(
    handler: Callable[[Request], Awaitable[Any]], message: Any, response: Any, version: int, caller: Caller = ALICE
) -> Any:
    """Return the response to `message`; both are encoded and decoded in `version`."""
    body = type(message).decode(bytes(message.encode(version=version)), version=version)
    header = RequestHeader(message.API_KEY, version, 1, "client", 0)

    async def call() -> Any:
        return await handler(Request(header, body, caller))

    found = asyncio.run(call())
    return response.decode(bytes(found.encode(version=version)), version=version)
