"""Looks up the upstream coordinators of groups and transactional ids."""

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.first_available_broker import Brokers

#: The first version of FindCoordinator that allows several keys in one request (KIP-699).
MANY_KEYS_VERSION = 4
#: Maximum number of concurrent requests with one key each. More would delay other requests on the same connection.
ONE_KEY_REQUESTS = 64


class Coordinator(NamedTuple):
    """The coordinator of one key, as a broker has returned it. `node_id` is valid only if there is no error."""

    node_id: int
    error_code: int = 0
    error_message: str | None = None


async def find_coordinators(
    brokers: Brokers, node_id: int, keys: Collection[str], key_type: int
) -> dict[str, Coordinator]:
    """Query broker `node_id` for the coordinators of `keys`. Return {key: coordinator}.

    `key_type` is 0 if the keys are group ids, and 1 if they are transactional ids. If the broker supports only one key
    per request, it receives one request per key. Raises UpstreamUnavailableError if the broker does not respond.
    """
    _, newest = (await brokers.features(node_id)).ranges.get(FindCoordinatorRequest.API_KEY, (0, 0))
    if newest >= MANY_KEYS_VERSION:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        response = await brokers.ask(node_id, request, FindCoordinatorResponse)
        found = {of_key.key: _coordinator(of_key) for of_key in response.coordinators}
        unanswered = Coordinator(-1, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return {key: found.get(key, unanswered) for key in keys}
    turns = asyncio.Semaphore(ONE_KEY_REQUESTS)

    async def find(key: str) -> Coordinator:
        async with turns:
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            return _coordinator(await brokers.ask(node_id, request, FindCoordinatorResponse))

    return dict(zip(keys, await asyncio.gather(*map(find, keys)), strict=True))


def _coordinator(response: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator) -> Coordinator:
    return Coordinator(response.node_id, response.error_code, response.error_message)
