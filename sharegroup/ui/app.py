"""Creates the ASGI application that serves all pages."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.errors import RequestError, ShareGroupError
from sharegroup.ui.access import Access
from sharegroup.ui.changes import Changes
from sharegroup.ui.pages import PageContext, Pages


def application(parts: PageContext, config: GatewayConfig, host: str) -> Access:
    """Return the ASGI application of the pages, for a server that listens on `host`.

    If `host` is a loopback address and no users are configured, the application only accepts requests whose host name
    is localhost or a loopback address. Raises InvalidConfigError if the users cannot be read.
    """
    pages, changes = Pages(parts), Changes(parts)

    def show_error(request: Request, error: Exception) -> Response:
        status, message = _status(error)
        return pages.show_error(request, status, message)

    app = Starlette(
        routes=[
            Route("/", pages.groups),
            Route("/group", pages.group),
            Route("/window", pages.window),
            Route("/record", pages.record),
            Route("/dead-ends", pages.dead_ends),
            Route("/change/remove-member", changes.remove_member, methods=["POST"]),
            Route("/change/reset", changes.reset, methods=["POST"]),
            Route("/change/config", changes.config, methods=["POST"]),
            Mount("/static", StaticFiles(directory=Path(__file__).with_name("static"))),
        ],
        exception_handlers={HTTPException: show_error, ShareGroupError: show_error, Exception: _show_failure},
    )
    return Access(app, config, host)


def _status(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    if isinstance(error, RequestError):
        return (403 if "AUTHORIZATION" in error.code.name else 409), str(error)
    return 503, str(error)


def _show_failure(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("internal error; see the log of the process of this page", 500)
