"""Administrators that use Kafka's protocol at a gateway. `Administrator` decides on their actions and times."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, IncrementalAlterConfigsRequest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.configs import GROUP
from sharegroup.protocol.messages import AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteOffsetsRequest,
)
from tests.simulation.administrators import Administrator, OnAnswer
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire.wire_client import ClientSide
from tests.simulation.wire.wire_connection import Connection, ConnectionLostError
from tests.simulation.world import World

SET, DELETE = 0, 1
#: Errors without a response of the job, which may have applied the request.
_UNKNOWN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class WireAdministrator(Administrator):
    """The administrator of one group. A request whose response is lost is sent again, so it may be applied twice."""

    def __init__(self, world: World, group_id: str, side: ClientSide) -> None:
        super().__init__(world, group_id)
        self._side = side
        self._loop = VirtualLoop(world.clock)
        side.loops.append(self._loop)

    def _ask(self, request: AdministratorRequest, on_answer: OnAnswer) -> None:
        self._waiting = request.type, on_answer
        self._loop.start(self._request(request, on_answer))

    async def _request(self, request: AdministratorRequest, on_answer: OnAnswer) -> None:
        side = self._side
        code: int | None = None
        attempts = 0
        message, version = _message(request)
        while code is None:
            attempts += 1
            gateway = self._random.choice(side.gateways)
            connection = Connection(side.clock, side.weather, self._loop, gateway, side.kafka.brokers[0], "admin")
            try:
                code = _code((await connection.ask(message, version)).message)
            except ConnectionLostError:
                code = None
            connection.close()
            if code is None or code in _UNKNOWN:
                code = None
                await asyncio.sleep(1)
        self._waiting = None
        if code and attempts > 1:  # rejected, or applied before and rejected when repeated
            code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        on_answer(code)


def _message(request: AdministratorRequest) -> tuple[Any, int]:
    """Return the request as a message of Kafka's protocol, and the message's version."""
    if isinstance(request, AlterConfigsRequest):
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in request.configs.items()
        ]
        named = resource(resource_type=GROUP, resource_name=request.group_id, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[named], validate_only=False), 1
    if isinstance(request, AlterOffsetsRequest):
        topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
        topics = {offset.topic: None for offset in request.offsets}
        return AlterShareGroupOffsetsRequest(
            group_id=request.group_id,
            topics=[
                topic(
                    topic_name=name,
                    partitions=[
                        topic.AlterShareGroupOffsetsRequestPartition(
                            partition_index=offset.partition, start_offset=offset.start_offset
                        )
                        for offset in request.offsets
                        if offset.topic == name
                    ],
                )
                for name in topics
            ],
        ), 0
    if isinstance(request, DeleteOffsetsRequest):
        of_topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        deleted = [of_topic(topic_name=name) for name in request.topic_names]
        return DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=deleted), 0
    return DeleteGroupsRequest(groups_names=[request.group_id]), 2


def _code(response: Any) -> int:
    """Return the request's error, or the first one if all its parts have one."""
    code = int(getattr(response, "error_code", 0))
    entries = [*(getattr(response, "responses", None) or ()), *(getattr(response, "results", None) or ())]
    named = [part for entry in entries for part in getattr(entry, "partitions", None) or (entry,)]
    codes = [int(part.error_code) for part in named]
    return code or (codes[0] if codes and all(codes) else 0)
