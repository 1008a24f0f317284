"""Request loop of one client connection: decodes each request, calls its handler and sends the responses in order.

As in Kafka, a connection has at most one request in progress that the gateway handles itself. Requests that are
forwarded to the upstream broker may be pipelined. The connection is closed if the client sends something other than a
Kafka request. It is also closed after a forbidden request that has no error response, such as one before the login.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sharegroup.config import GatewayConfig
from sharegroup.errors import error_name
from sharegroup.gateway.clients.frame_budget import FrameBudget
from sharegroup.gateway.clients.logins.login import Logins
from sharegroup.gateway.clients.logins.sasl_server import SASL_AUTHENTICATE, SASL_HANDSHAKE
from sharegroup.gateway.clients.quotas import Quotas
from sharegroup.gateway.clients.request_sizes import MAX_LOGIN_REQUEST_BYTES, size_problem
from sharegroup.gateway.clients.waiting_frames import WaitingFrames
from sharegroup.gateway.handlers.api_versions import API_VERSIONS, unsupported_version_response
from sharegroup.gateway.handlers.passthrough_requests import PassthroughRequests
from sharegroup.gateway.upstream.passthrough import Passthrough
from sharegroup.gateway.wire.request import Request, Route, api_name
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.framing import FrameProtocol, frame_message
from sharegroup.kafka_clients.connections.headers import AnyResponse, EncodedResponse, Piece, RequestHeader
from sharegroup.monitoring.metrics.client_counts import PASSED_THROUGH, ClientCounts
from sharegroup.security import audit
from sharegroup.security.caller import Caller

#: Maximum number of responses per connection that are in progress or waiting to be sent.
MAX_WAITING_RESPONSES = 16
#: APIs whose responses may be large: ListGroups, DescribeConfigs, ShareGroupDescribe, DescribeShareGroupOffsets.
MANY_ENTRIES = frozenset({16, 32, 77, 90})
#: The API whose responses count for `consumer_byte_rate`, and the APIs that are not subject to quotas.
SHARE_FETCH, UNLIMITED = 78, frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})

#: How long a connection stays open after a failed login, in seconds.
FAILED_LOGIN_S = 0.5


class _ForwardedResponse(NamedTuple):
    """A response that the upstream broker will send. The future `frame` completes when the response has arrived.

    `finish` converts the frame to the response for the client, including its length. If `finish` is None, the frame is
    forwarded unchanged.
    """

    frame: asyncio.Future[memoryview]
    finish: Callable[[memoryview], bytearray] | None


#: A response to send: the gateway's encoded response in pieces, or a response that the upstream broker will send.
_Response = list[Piece] | _ForwardedResponse


@dataclass(frozen=True)
class Service:
    """The objects that serve requests. All client connections share them.

    `routes` is {API key: (request class, handler)} of the APIs that the gateway handles itself. The gateway handles
    the APIs in `share_group_routes` only if the group in the request is a share group. All other requests are forwarded
    to the upstream broker.
    """

    config: GatewayConfig
    routes: Mapping[int, Route]
    passthrough: PassthroughRequests
    logins: Logins
    budget: FrameBudget
    quotas: Quotas
    counts: ClientCounts = field(default_factory=ClientCounts)
    share_group_routes: Mapping[int, Route] = field(default_factory=dict)


class RequestLoop:
    """The loop that handles the requests of one client and sends the responses.

    `link` is the client's connection. `on_failure` is called once, with the error, if an error ends the connection.
    """

    def __init__(
        self, service: Service, link: FrameProtocol, caller: Caller, on_failure: Callable[[Exception], None]
    ) -> None:
        self._service, self._link, self.caller, self._on_failure = service, link, caller, on_failure
        self._login = service.logins.new_login(caller.node_id)
        self._frames = WaitingFrames(link, service.budget)
        self._responses: asyncio.Queue[_Response] = asyncio.Queue(MAX_WAITING_RESPONSES)
        self._passthrough: Passthrough | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self.had_request = self._is_over = self._is_handling = False
        self._may_close: Callable[[], bool] | None = None
        #: How long to wait after the current request, in ms. It is 0 unless the client has exceeded its quota.
        self._throttle_ms = 0
        self._limit_requests()

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in, or no login is required."""
        return self._login.is_authenticated

    def start(self, host: str, certificate_principal: str | None) -> None:
        """Start serving the client with the IP address `host`.

        If SASL is disabled and the client has a TLS certificate, the client is logged in as `certificate_principal`.
        """
        self.caller = replace(self.caller, host=host)
        if certificate_principal is not None and not self._login.is_required:
            self._log_in(certificate_principal)
            audit.log_login(self.caller, "TLS")
        self._tasks = [asyncio.ensure_future(self._run(work)) for work in (self._handle_all(), self._send_all())]

    @property
    def has_share(self) -> bool:
        """Whether the request that is being read or handled holds a share of the memory budget."""
        return self._frames.has_share

    def size_problem(self, size: int, head: memoryview) -> str | None:
        """Return an error message if a request of `size` bytes is too long, else None.

        The limit depends on the API key, which is in `head`, the first bytes of the request. Before the login, the
        result is always None, because `max_frame_bytes` of the connection limits all requests.
        """
        return size_problem(size, head) if self.is_authenticated else None

    def begin_request(self, size: int) -> None:
        """If a request is large, stop reading its body until there is memory for it (`WaitingFrames.begin_request`)."""
        self._frames.begin_request(size)

    def enqueue(self, frame: memoryview) -> None:
        self._frames.put(frame)

    def drain(self, may_close: Callable[[], bool]) -> None:
        """Close the connection when all requests have been answered and `may_close` returns True.

        `may_close` is called as soon as the requests have been answered, and again after each further request.
        """
        self._may_close = may_close
        self._tasks.append(asyncio.ensure_future(self._run(self._close_if_done())))

    def stop(self) -> None:
        """Handle no further requests, because the connection is being closed."""
        self._is_over = True

    def close(self) -> None:
        """Cancel everything in progress. Called when the client has disconnected."""
        self._is_over = True
        self._frames.clear()
        self._login.close()
        for task in self._tasks:
            task.cancel()
        if self._passthrough is not None:
            self._passthrough.close()

    async def _run(self, work: Coroutine[None, None, None]) -> None:
        """Run a task of the connection. If it raises an exception, call `on_failure`, unless the loop is over."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - logged for this connection, no other connection is affected
            if not self._is_over:
                self._on_failure(error)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _handle_all(self) -> None:
        """Handle the requests in order. After a throttled request, wait for its throttle time.

        The loop ends by cancellation or when `_is_over` is set. Cancellation alone is not sufficient, because
        `wait_for` may swallow it before Python 3.12.
        """
        while not self._is_over:
            frame = await self._frames.next(self.caller.host)
            self._is_handling = True
            await self._handle(frame)
            self._is_handling = False
            if self._may_close is not None:
                await self._close_if_done()
            if self._throttle_ms:
                throttle_ms, self._throttle_ms = self._throttle_ms, 0
                await asyncio.sleep(throttle_ms / 1000)

    async def _close_if_done(self) -> None:
        """Wait until all responses have been sent. Then close the connection if `_may_close` returns True.

        If it returns False, or if a request is being handled, the connection stays open. `_handle_all` calls this
        method again after the next request.
        """
        await self._responses.join()
        if self._may_close is not None and not self._is_handling and self._may_close():
            self._is_over = True
            if self._link.transport is not None:
                self._link.transport.close()

    async def _handle(self, frame: memoryview) -> None:
        self.had_request = True
        if self._login.expects_bare_message:
            await self._handle_bare_message(frame)
            return
        header = wire.read_header(frame)
        self._login.check_allowed(header.api_key)
        self.caller = replace(self.caller, api=api_name(header.api_key))
        route = self._service.routes.get(header.api_key) or await self._share_group_route(header, frame)
        if route is None:
            await self._forward(header, frame)
            return
        message, _ = route
        self._service.counts.count_request(message.name, len(frame))
        await self._responses.join()  # one handled request at a time, in order with forwarded ones
        await self._responses.put(await self._respond(route, header, frame))
        if self._login.has_failed:
            await self._close_when_answered()

    async def _share_group_route(self, header: RequestHeader, frame: memoryview) -> Route | None:
        """Return the route of a request in `Service.share_group_routes`, if the group in the request is a share group.

        Otherwise return None. The request is then forwarded.
        """
        route = self._service.share_group_routes.get(header.api_key)
        if route is None:
            return None
        is_ours = await self._service.passthrough.is_for_share_group(self.caller.node_id, header, frame)
        return route if is_ours else None

    async def _forward(self, header: RequestHeader, frame: memoryview) -> None:
        self._service.counts.count_request(PASSED_THROUGH, len(frame))
        with audit.collect_denials():
            decision = await self._service.passthrough.admit(self.caller, header, frame)
        if decision.response is not None:
            await self._responses.put([decision.response])
        if decision.frame is None:
            return
        if self._passthrough is None:
            self._passthrough = self._service.passthrough.create_link(
                self.caller.node_id, self._login.upstream_settings
            )
        response = await self._passthrough.forward(header, decision.frame)
        if response is not None:
            await self._responses.put(_ForwardedResponse(response, decision.convert_response))

    async def _respond(self, route: Route, header: RequestHeader, frame: memoryview) -> list[Piece]:
        message, handler = route
        low, high = message.valid_versions
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            return wire.encode_pieces(unsupported_version_response(), 0, header.correlation_id)
        begin_s = self._loop.time()
        request = Request(header, decode_request(message, header, frame), self.caller)
        response: AnyResponse
        if self._login.handles_api(header.api_key):
            response = await self._login.handle_request(request)
            await self._apply_login()
        else:
            with audit.collect_denials():
                response = await handler(await self._login.with_rights(request))
        encoded = await self._within_quota(header, response)
        self._service.counts.count_handled(message.name, self._loop.time() - begin_s, _error_of(response))
        self._service.counts.count_response(message.name, _size(encoded))
        return encoded

    async def _within_quota(self, header: RequestHeader, response: AnyResponse) -> list[Piece]:
        """Record the request in the client's quotas. Return the encoded response with the throttle time.

        The APIs in `UNLIMITED`, which are those of the login and ApiVersions, are neither recorded nor throttled.
        """
        encoded = await self._encoded(header, response)
        if header.api_key in UNLIMITED:
            return encoded
        fetched = _size(encoded) if header.api_key == SHARE_FETCH else 0
        now_ms = self._loop.time() * 1000
        self._throttle_ms = self._service.quotas.record_request(
            self.caller.principal, header.client_id, fetched, now_ms
        )
        if not self._throttle_ms:
            return encoded
        self._service.counts.count_throttling(self._throttle_ms / 1000)
        if isinstance(response, EncodedResponse):
            response.throttle(self._throttle_ms)
        else:
            response.throttle_time_ms = self._throttle_ms  # type: ignore[attr-defined]  # in all of our responses
        return await self._encoded(header, response)

    @staticmethod
    async def _encoded(header: RequestHeader, response: AnyResponse) -> list[Piece]:
        """Encode the response. Responses that may have thousands of entries are encoded on a thread."""
        if header.api_key in MANY_ENTRIES:
            return await asyncio.to_thread(wire.encode_pieces, response, header.api_version, header.correlation_id)
        return wire.encode_pieces(response, header.api_version, header.correlation_id)

    # -- the login ---------------------------------------------------------------------------------------------------

    async def _handle_bare_message(self, message: memoryview) -> None:
        """Handle a SASL message that is not wrapped in a request.

        Send the response, or close the connection if the login has failed.
        """
        await self._responses.join()
        encoded = await self._login.handle_bare_message(bytes(message), self.caller)
        await self._apply_login()
        if self._login.has_failed:
            await self._close_when_answered()
        else:
            await self._responses.put([frame_message(encoded)])

    async def _apply_login(self) -> None:
        """If the client is logged in, set the principal of `caller`, and log in again on the connection to the broker.

        Called after each login step. The connection to the broker is changed only if it uses the client's own login.
        """
        if not self._login.has_failed and self._login.principal is not None:
            self._log_in(self._login.principal)
            settings = self._login.upstream_settings
            if self._passthrough is not None and settings is not None:
                await self._passthrough.log_in(settings)

    def _log_in(self, principal: str) -> None:
        self.caller = replace(self.caller, principal=principal)
        self._limit_requests()

    def _limit_requests(self) -> None:
        most = self._service.config.request_max_bytes
        self._link.max_frame_bytes = most if self.is_authenticated else min(most, MAX_LOGIN_REQUEST_BYTES)

    async def _close_when_answered(self) -> None:
        """Close the connection after a failed login. Before that, give the client time to close it itself.

        If the gateway closed it immediately, kafka-python would assume that the connection was lost, and retry forever.
        """
        await self._responses.join()
        self._is_over = True
        await asyncio.sleep(FAILED_LOGIN_S)
        if self._link.transport is not None:
            self._link.transport.close()

    # -- responses -----------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Send the responses in order, as fast as the client reads them."""
        while True:
            response = await self._responses.get()
            try:
                await self._send(response)
            finally:
                self._responses.task_done()

    async def _send(self, response: _Response) -> None:
        if isinstance(response, _ForwardedResponse):
            frame = await response.frame
            if response.finish is None:
                self._service.counts.count_response(PASSED_THROUGH, len(frame))
                self._link.write_frame(frame)
            elif self._link.transport is not None:
                finished = response.finish(frame)
                self._service.counts.count_response(PASSED_THROUGH, len(finished))
                self._link.transport.write(finished)
            await self._link.wait_drained()
            if self._passthrough is not None:
                self._passthrough.on_sent(len(frame))
        else:
            self._link.write_pieces(response)
            await self._link.wait_drained()


def _size(pieces: list[Piece]) -> int:
    return sum(map(len, pieces))


def _error_of(response: AnyResponse) -> str:
    """Return the name of a response's top-level error; empty if the response has no such error."""
    code = getattr(response, "error_code", 0)
    return error_name(code) if code else ""
