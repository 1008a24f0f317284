"""The server of the page."""

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn

from sharegroup.config import Config
from sharegroup.config.keys.connection_limits import connection_overrides
from sharegroup.errors import ShareGroupError
from sharegroup.gateway.clients.accepting.descriptors import raise_limit
from sharegroup.log_fields import LogFields
from sharegroup.security.acl import load_acl
from sharegroup.security.audit import set_up_audit_log
from sharegroup.security.authorization import Authorization
from sharegroup.security.listener import check_listener, is_loopback
from sharegroup.security.reloading import ReloadingFiles
from sharegroup.security.tls import listener_context
from sharegroup.ui.access import Tokens
from sharegroup.ui.app import application
from sharegroup.ui.connections import PageConnections
from sharegroup.ui.data.logs import BrokerLogs, Logs
from sharegroup.ui.data.snapshots import Snapshots
from sharegroup.ui.pages import PageContext

logger = logging.getLogger(__name__)

#: Maximum number of connections that wait to be accepted.
_BACKLOG = 100
_NICENESS = 10
_RELOAD_INTERVAL_S = 1.0


class PageUnavailableError(ShareGroupError):
    """The server of the page cannot listen on its address. An administrator must change the configuration."""


class PageServer:
    """Serves the page at one address.

    The constructor raises InvalidConfigError if the configuration or one of its files is invalid, and
    PageUnavailableError if the address is not available.
    """

    def __init__(
        self, config: Config, host: str, port: int, allows_changes: bool = False, logs: Logs | None = None
    ) -> None:
        check_listener(config.gateway, "gateway.ui.host", host)
        tls = listener_context(config.gateway.tls_certificate, config.gateway.tls_key, config.gateway.tls_client_ca)
        path = config.gateway.acls
        self._acl = ReloadingFiles(partial(load_acl, path), [path]) if path else None
        self._authorization = Authorization(None if self._acl is None else self._acl.value, config.row_topics)
        logs = logs or BrokerLogs(config)
        self._snapshots = Snapshots(config, logs)
        parts = PageContext(config, self._snapshots, logs, self._authorization, Tokens(), allows_changes)
        self._pages = application(parts, config.gateway, host)
        overrides = connection_overrides(config.gateway.max_connections_per_ip_overrides)
        settings = uvicorn.Config(
            self._pages,
            http=cast("type[asyncio.Protocol]", PageConnections(overrides)),  # uvicorn expects a class
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if tls is None else _always(tls),
        )
        self._server = uvicorn.Server(settings)
        self._socket = _listening(host, port)
        bound = self._socket.getsockname()[1]
        self.address = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{bound}/"
        if config.gateway.sasl_users and tls is None and not is_loopback(host):
            logger.warning(
                "page at %(address)s has no TLS; passwords are sent in plain text", LogFields(address=self.address)
            )

    def serve(self) -> None:
        """Serve until `stop` is called."""
        raise_limit()
        self._snapshots.start()
        try:
            asyncio.run(self._serve())
        finally:
            self._socket.close()
            self._snapshots.close()
            self._pages.close()

    async def _serve(self) -> None:
        reloading = asyncio.ensure_future(self._reload())
        try:
            await self._server.serve([self._socket])
        finally:
            reloading.cancel()

    async def _reload(self) -> None:
        """Check every second whether the files of users and access rights have changed, and reload changed files."""
        while True:
            await asyncio.sleep(_RELOAD_INTERVAL_S)
            await asyncio.to_thread(self._pages.reload)
            if self._acl is not None and await asyncio.to_thread(self._acl.check):
                self._authorization.replace_list(self._acl.value)

    def stop(self, *_: object) -> None:
        """Make `serve` return soon. Any thread or a signal handler can call this method."""
        self._server.should_exit = True


def run_page(config: Config, host: str, port: int, allows_changes: bool) -> None:
    """Print the address of the page, and serve the page until SIGTERM or SIGINT.

    The priority of this process is lowered, so that it does not slow down a job on the same machine. Raises the same
    errors as the constructor of `PageServer`.
    """
    set_up_audit_log()
    server = PageServer(config, host, port, allows_changes)
    os.nice(_NICENESS)
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # uvicorn raises them again at its end, which must not kill the process
        signal.signal(number, server.stop)
    print(f"ui: {server.address}", flush=True)
    server.serve()


def _always(tls: ssl.SSLContext) -> Callable[[object, object], ssl.SSLContext]:
    return lambda config, default: tls


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise PageUnavailableError(f"the server of the page cannot listen on {host}:{port}: {error}") from error
