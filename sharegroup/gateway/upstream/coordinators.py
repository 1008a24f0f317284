"""Which upstream broker coordinates a group or a transaction: asked for many keys at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.brokers import Brokers

#: The first version whose request has many keys (KIP-699).
MANY_KEYS_VERSION = 4
#: Of the requests for one key each, how many are on their way at a time: the connection is not theirs alone.
ONE_KEY_REQUESTS = 64


class Coordinator(NamedTuple):
    """What a broker says of a key; the node counts where there is no error."""

    node_id: int
    error_code: int = 0
    error_message: str | None = None


async def find_coordinators(
    brokers: Brokers, node_id: int, keys: Collection[str], key_type: int
) -> dict[str, Coordinator]:
    """The coordinator of each key, as broker `node_id` knows it: one request, or one for each key of an old broker.

    Raises UpstreamUnavailableError.
    """
    _, newest = (await brokers.features(node_id)).ranges.get(FindCoordinatorRequest.API_KEY, (0, 0))
    if newest >= MANY_KEYS_VERSION:
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        answer = await brokers.ask(node_id, asked, FindCoordinatorResponse)
        found = {of_key.key: _coordinator(of_key) for of_key in answer.coordinators}
        unanswered = Coordinator(-1, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return {key: found.get(key, unanswered) for key in keys}
    turns = asyncio.Semaphore(ONE_KEY_REQUESTS)

    async def find(key: str) -> Coordinator:
        async with turns:
            asked = FindCoordinatorRequest(key=key, key_type=key_type)
            return _coordinator(await brokers.ask(node_id, asked, FindCoordinatorResponse))

    return dict(zip(keys, await asyncio.gather(*map(find, keys)), strict=True))


def _coordinator(answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator) -> Coordinator:
    return Coordinator(answer.node_id, answer.error_code, answer.error_message)
