"""A channel to several jobs (cells). Each job serves its own groups."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from sharegroup.gateway.job_client.cell_channel import CellChannel
from sharegroup.gateway.job_client.job_channel import JobUnavailableError, Request
from sharegroup.protocol.rows.broadcasts import Broadcast
from sharegroup.protocol.rows.gateway_rows import GatewayRow
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.types import SharePartitionKey


class CellChannels:
    """A `JobChannel` that sends each request to the cell of its group. `cell_of` returns the cell of a group.

    The channels of the cells share an appender, the key of response rows, and the sequence of request ids. `subscribe`
    registers a callback with every channel, because a request id does not identify the cell. When the response arrives,
    the callback is removed from all channels.
    """

    def __init__(self, channels: Mapping[str, CellChannel], cell_of: Callable[[str], str]) -> None:
        self._channels, self._cell_of = channels, cell_of
        self._first = next(iter(channels.values()))
        self.reply_to = self._first.reply_to
        for channel in channels.values():
            channel.reply_to = self.reply_to

    @property
    def cells(self) -> Mapping[str, CellChannel]:
        return self._channels

    def start(self) -> None:
        """Connect to all cells in the background. A request waits only for the channel of its own cell."""
        for channel in self._channels.values():
            channel.start()

    async def close(self) -> None:
        """Send pending rows, then close the connections."""
        for channel in self._channels.values():
            await channel.close()

    def new_id(self) -> str:
        """Return an id for a request row that is unique in this gateway."""
        return self._first.new_id()

    def cell_of(self, group_id: str) -> str:
        return self._cell_of(group_id)

    def append(self, request: Request) -> asyncio.Future[int]:
        return self._channel(request).append(request)

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        self._channel(request).append_soon(request, failed)

    def now_ms(self) -> int:
        return self._first.now_ms()

    def ask(self, request: Request, durable_s: float | None = None) -> Awaitable[Response]:
        return self._channel(request).ask(request, durable_s)

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        def once(response: Response) -> None:
            self.unsubscribe(request_id)
            receive(response)

        for channel in self._channels.values():
            channel.subscribe(request_id, once)

    def unsubscribe(self, request_id: str) -> None:
        for channel in self._channels.values():
            channel.unsubscribe(request_id)

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        for channel in self._channels.values():
            channel.on_broadcast(callback)

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        for channel in self._channels.values():
            channel.on_wanted(callback)

    def announce(self, row: GatewayRow) -> Sequence[asyncio.Future[int]]:
        """Announce this gateway in each cell. Returns one future per partition, as `CellChannel.announce` does.

        A cell in which this is impossible now is skipped. Raises JobUnavailableError if all cells are skipped.
        """
        sent: list[asyncio.Future[int]] = []
        problem: JobUnavailableError | None = None
        for channel in self._channels.values():
            try:
                sent += channel.announce(row)
            except JobUnavailableError as error:
                problem = error
        if problem is not None and not sent:
            raise problem
        return sent

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        """Register a callback for the announcements of all gateways. Its arguments are (row, append time in ms).

        The callback is called once per cell for each announcement.
        """
        for channel in self._channels.values():
            channel.on_gateway(callback)

    def _channel(self, request: Request) -> CellChannel:
        return self._channels[self._cell_of(request.group_id)]
