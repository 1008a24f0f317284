"""One client's requests: each is decoded, answered by who answers it, and the answers go out in the same order.

As in Kafka, a connection has one request of the gateway's own at work at a time; those that pass through to the
upstream broker may follow each other before their answers are there. What is no request, or one that the client may
not send, ends the connection, since Kafka has no answer for it.
"""

from __future__ import annotations

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
from sharegroup.gateway.clients.request_sizes import MAX_LOGIN_REQUEST_BYTES, too_long
from sharegroup.gateway.clients.waiting_frames import WaitingFrames
from sharegroup.gateway.handlers.api_versions import API_VERSIONS, unsupported_version
from sharegroup.gateway.handlers.pass_through import PassThrough
from sharegroup.gateway.upstream.passthrough import Passthrough
from sharegroup.gateway.wire.request import Request, Route, api_name
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.framing import FrameProtocol, framed
from sharegroup.kafka_clients.connections.headers import AnyResponse, EncodedResponse, Piece, RequestHeader
from sharegroup.monitoring.metrics.client_counts import PASSED_THROUGH, ClientCounts
from sharegroup.security import audit
from sharegroup.security.caller import Caller

#: Answers that may be on their way to the client, and from upstream.
MAX_WAITING_ANSWERS = 16
#: ListGroups, DescribeConfigs, ShareGroupDescribe, DescribeShareGroupOffsets: administrators ask for much at once.
MANY_ENTRIES = frozenset({16, 32, 77, 90})
#: The one request whose response has records, and those that come before a client is known.
SHARE_FETCH, UNLIMITED = 78, frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})

#: How long a connection stays after a refused login.
REFUSED_LOGIN_S = 0.5


class _Coming(NamedTuple):
    """A frame that is to come from upstream, and what is made of it for the client, framed; None: it stays as it is."""

    frame: asyncio.Future[memoryview]
    finish: Callable[[memoryview], bytearray] | None


#: What is sent: encoded already, or to come.
_Answer = list[Piece] | _Coming


@dataclass(frozen=True)
class Service:
    """What clients are served with, all alike. `routes`: {api key: who answers it here}; the rest passes through, but
    for requests of `share_group_routes` whose group is a share group."""

    config: GatewayConfig
    routes: Mapping[int, Route]
    pass_through: PassThrough
    logins: Logins
    budget: FrameBudget
    quotas: Quotas
    counts: ClientCounts = field(default_factory=ClientCounts)
    share_group_routes: Mapping[int, Route] = field(default_factory=dict)


class RequestLoop:
    """Handles one client's requests, and sends their answers. `link` carries the bytes; `failed` is told, once, why the
    connection cannot go on."""

    def __init__(
        self, service: Service, link: FrameProtocol, caller: Caller, failed: Callable[[Exception], None]
    ) -> None:
        self._service, self._link, self.caller, self._failed = service, link, caller, failed
        self._login = service.logins.begin(caller.node_id)
        self._frames = WaitingFrames(link, service.budget)
        self._answers: asyncio.Queue[_Answer] = asyncio.Queue(MAX_WAITING_ANSWERS)
        self._passthrough: Passthrough | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self.had_request = self._is_over = self._is_handling = False
        self._may_go: Callable[[], bool] | None = None
        #: How long no request is handled after the present one: its client has used more than its quota.
        self._throttle_ms = 0
        self._limit_requests()

    # -- life --------------------------------------------------------------------------------------------------------

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in, if it has to."""
        return self._login.is_authenticated

    def start(self, host: str, certificate_principal: str | None) -> None:
        """Serve the client, who is there now; its certificate says who it is where it need not log in."""
        self.caller = replace(self.caller, host=host)
        if certificate_principal is not None and not self._login.is_asked_for:
            self._log_in(certificate_principal)
            audit.login_accepted(self.caller, "TLS")
        self._tasks = [asyncio.ensure_future(self._until_over(work)) for work in (self._handle_all(), self._send_all())]

    @property
    def has_share(self) -> bool:
        """Whether the request that is being read, or handled, has a share of the budget."""
        return self._frames.has_share

    def refusal(self, size: int, head: memoryview) -> str | None:
        """Why a request that begins so is too long; before the login all have one limit, and some no header."""
        return too_long(size, head) if self.is_authenticated else None

    def begun(self, size: int) -> None:
        """A request has begun to come."""
        self._frames.begun(size)

    def received(self, frame: memoryview) -> None:
        """Have a request handled when its turn comes."""
        self._frames.put(frame)

    def drain(self, may_go: Callable[[], bool]) -> None:
        """The gateway ends: close the connection when all is answered, now or behind the request by which `may_go`."""
        self._may_go = may_go
        self._tasks.append(asyncio.ensure_future(self._until_over(self._go_if_done())))

    def stop(self) -> None:
        """Handle no more requests: the connection is being closed."""
        self._is_over = True

    def close(self) -> None:
        """Drop what is under way: the client is gone."""
        self._is_over = True
        self._frames.clear()
        self._login.close()
        for task in self._tasks:
            task.cancel()
        if self._passthrough is not None:
            self._passthrough.close()

    async def _until_over(self, work: Coroutine[None, None, None]) -> None:
        """Run one of the two tasks; what goes wrong in it ends the connection."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - each has its line in the log, and no other connection suffers
            if not self._is_over:
                self._failed(error)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _handle_all(self) -> None:
        """Handle the requests in order.

        It ends by being cancelled, or by itself: before Python 3.12 `wait_for` may swallow a cancellation.
        """
        while not self._is_over:
            frame = await self._frames.next(self.caller.host)
            self._is_handling = True
            await self._handle(frame)
            self._is_handling = False
            if self._may_go is not None:
                await self._go_if_done()
            if self._throttle_ms:
                throttle_ms, self._throttle_ms = self._throttle_ms, 0
                await asyncio.sleep(throttle_ms / 1000)

    async def _go_if_done(self) -> None:
        """Close the connection of a gateway that ends, unless it is needed still."""
        await self._answers.join()
        if self._may_go is not None and not self._is_handling and self._may_go():
            self._is_over = True
            if self._link.transport is not None:
                self._link.transport.close()

    async def _handle(self, frame: memoryview) -> None:
        self.had_request = True
        if self._login.takes_bare_messages:
            await self._answer_bare(frame)
            return
        header = wire.read_header(frame)
        self._login.check_allowed(header.api_key)
        self.caller = replace(self.caller, api=api_name(header.api_key))
        route = self._service.routes.get(header.api_key) or await self._share_group_route(header, frame)
        if route is None:
            await self._pass_on(header, frame)
            return
        message, _ = route
        self._service.counts.received(message.name, len(frame))
        await self._answers.join()  # one of our own at a time, and in order with what passes through
        await self._answers.put(await self._answer(route, header, frame))
        if self._login.has_failed:
            await self._end_when_answered()

    async def _share_group_route(self, header: RequestHeader, frame: memoryview) -> Route | None:
        """Who answers a request here because of its group; None: it passes through."""
        route = self._service.share_group_routes.get(header.api_key)
        if route is None:
            return None
        is_ours = await self._service.pass_through.is_for_share_group(self.caller.node_id, header, frame)
        return route if is_ours else None

    async def _pass_on(self, header: RequestHeader, frame: memoryview) -> None:
        self._service.counts.received(PASSED_THROUGH, len(frame))
        with audit.one_request():
            passage = await self._service.pass_through.admit(self.caller, header, frame)
        if passage.answer is not None:
            await self._answers.put([passage.answer])
        if passage.frame is None:
            return
        if self._passthrough is None:
            self._passthrough = self._service.pass_through.link(self.caller.node_id, self._login.upstream_settings)
        answer = await self._passthrough.forward(header, passage.frame)
        if answer is not None:
            await self._answers.put(_Coming(answer, passage.finish))

    async def _answer(self, route: Route, header: RequestHeader, frame: memoryview) -> list[Piece]:
        message, handler = route
        low, high = message.valid_versions
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            return wire.encode_pieces(unsupported_version(), 0, header.correlation_id)
        begin_s = self._loop.time()
        request = Request(header, decode_request(message, header, frame), self.caller)
        response: AnyResponse
        if self._login.has_part_in(header.api_key):
            response = await self._login.answer(request)
            await self._see_login()
        else:
            with audit.one_request():
                response = await handler(await self._login.with_rights(request))
        answer = await self._within_quota(header, response)
        self._service.counts.answered(message.name, self._loop.time() - begin_s, _error_of(response))
        self._service.counts.sent(message.name, _size(answer))
        return answer

    async def _within_quota(self, header: RequestHeader, response: AnyResponse) -> list[Piece]:
        """The encoded response. Its client is told how long it is throttled, if it is; none is before its login."""
        answer = await self._encoded(header, response)
        if header.api_key in UNLIMITED:
            return answer
        fetched = _size(answer) if header.api_key == SHARE_FETCH else 0
        now_ms = self._loop.time() * 1000
        self._throttle_ms = self._service.quotas.used(self.caller.principal, header.client_id, fetched, now_ms)
        if not self._throttle_ms:
            return answer
        self._service.counts.throttled(self._throttle_ms / 1000)
        if isinstance(response, EncodedResponse):
            response.throttle(self._throttle_ms)
        else:
            response.throttle_time_ms = self._throttle_ms  # type: ignore[attr-defined]  # all of the gateway's own have it
        return await self._encoded(header, response)

    @staticmethod
    async def _encoded(header: RequestHeader, response: AnyResponse) -> list[Piece]:
        """What may have thousands of entries is encoded on a thread, behind the others that are served."""
        if header.api_key in MANY_ENTRIES:
            return await asyncio.to_thread(wire.encode_pieces, response, header.api_version, header.correlation_id)
        return wire.encode_pieces(response, header.api_version, header.correlation_id)

    # -- the login ---------------------------------------------------------------------------------------------------

    async def _answer_bare(self, message: memoryview) -> None:
        """A step of the login without a request around it."""
        await self._answers.join()
        answer = await self._login.answer_bare(bytes(message), self.caller)
        await self._see_login()
        if self._login.has_failed:
            await self._end_when_answered()
        else:
            await self._answers.put([framed(answer)])

    async def _see_login(self) -> None:
        """A step of the login is done, which may have been the last one, or that of a later login."""
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

    async def _end_when_answered(self) -> None:
        """The client has a moment to end the connection itself.

        Who reads the refusal of a login and the end at once may take it for a lost connection, and log in again and
        again, as kafka-python does.
        """
        await self._answers.join()
        self._is_over = True
        await asyncio.sleep(REFUSED_LOGIN_S)
        if self._link.transport is not None:
            self._link.transport.close()

    # -- answers -----------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Send the answers in order, as fast as the client reads them."""
        while True:
            answer = await self._answers.get()
            try:
                await self._send(answer)
            finally:
                self._answers.task_done()

    async def _send(self, answer: _Answer) -> None:
        if isinstance(answer, _Coming):
            frame = await answer.frame
            if answer.finish is None:
                self._service.counts.sent(PASSED_THROUGH, len(frame))
                self._link.write_frame(frame)
            elif self._link.transport is not None:
                finished = answer.finish(frame)
                self._service.counts.sent(PASSED_THROUGH, len(finished))
                self._link.transport.write(finished)
            await self._link.drained()
            if self._passthrough is not None:
                self._passthrough.taken(len(frame))
        else:
            self._link.write_pieces(answer)
            await self._link.drained()


def _size(pieces: list[Piece]) -> int:
    return sum(map(len, pieces))


def _error_of(response: AnyResponse) -> str:
    """The name of the error of a whole request, "" for none, or where a response has one for each of its parts."""
    code = getattr(response, "error_code", 0)
    return error_name(code) if code else ""
