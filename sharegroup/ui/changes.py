"""Changes that `--allow-changes` permits: reset an offset, remove a member, set a config.

The browser sends each change as an HTML form (POST).
"""

from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.row_topics.group_administration import alter_configs, alter_offsets, remove_members
from sharegroup.protocol.rows.share_group_requests import MemberIdentity
from sharegroup.security import audit
from sharegroup.security.acl import Resource
from sharegroup.security.caller import Caller
from sharegroup.ui.data.snapshots import PartitionView
from sharegroup.ui.pages import PageContext, caller_of
from sharegroup.ui.words import address

#: Maximum time that a browser waits for the job, in seconds.
_TIMEOUT_S = 30.0
_MAX_BYTES = 65_536

Form = dict[str, str]


class Changes:
    """Handlers of the POST requests that change a group.

    A change requires `--allow-changes`, the token of the form, and the caller's permission.
    """

    def __init__(self, parts: PageContext) -> None:
        self._parts = parts

    async def remove_member(self, request: Request) -> Response:
        return await self._change(request, self._remove_member, "removed")

    async def reset(self, request: Request) -> Response:
        """Set the start offset of a share-partition."""
        return await self._change(request, self._reset, "reset")

    async def config(self, request: Request) -> Response:
        """Set or remove a config of the group."""
        return await self._change(request, self._config, "configured")

    async def _change(self, request: Request, change: Callable[[Caller, Form], None], done: str) -> Response:
        caller = caller_of(request)
        form = await _form(request)
        if not self._parts.allows_changes:
            raise HTTPException(403, "changes are disabled; the page was started without --allow-changes")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise HTTPException(403, "the form was sent by another site")
        if not self._parts.tokens.is_token(caller.principal, form.get("token", "")):
            raise HTTPException(403, "the server was restarted after this form was created; reload the page")
        if not form.get("group"):
            raise HTTPException(400, "the form does not contain a group")
        await run_in_threadpool(change, caller, form)
        audit.log_change(caller, "group", form["group"], detail=done)
        return RedirectResponse(address("/group", group=form["group"], done=done), 303)

    def _remove_member(self, caller: Caller, form: Form) -> None:
        self._parts.authorization.authorize_fetch(caller, form["group"])  # as Kafka's LeaveGroup: Read
        if not form.get("member"):
            raise HTTPException(400, "the form does not contain a member")
        named = [MemberIdentity(form["member"], None)]
        for error in remove_members(self._parts.config, form["group"], named, _TIMEOUT_S):
            if error.error_code:
                raise HTTPException(409, error.error_message or f"error {error.error_code}")

    def _reset(self, caller: Caller, form: Form) -> None:
        group_id, topic = form["group"], form.get("topic", "")
        self._parts.authorization.authorize_alter_offsets(caller, group_id)
        if not self._parts.authorization.may_read(caller, topic):
            raise RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{caller.principal} may not read {topic}")
        group = self._parts.snapshots.newest.groups.get(group_id)
        rows = group.partitions if group is not None else ()
        row = next((row for row in rows if (row.topic, str(row.partition)) == (topic, form.get("partition"))), None)
        if row is None:
            raise HTTPException(404, "the group has no such share-partition")
        offsets = {(row.topic, row.partition): _offset(row, form.get("to", ""), form.get("offset", ""))}
        for error in alter_offsets(self._parts.config, group_id, offsets, _TIMEOUT_S):
            if error.error_code:
                raise HTTPException(409, error.error_message or f"error {error.error_code}")

    def _config(self, caller: Caller, form: Form) -> None:
        self._parts.authorization.authorize_alter_configs(caller, Resource.GROUP, form["group"])
        name = form.get("name", "")
        if not name:
            raise HTTPException(400, "the form does not contain the name of a config")
        value = None if form.get("to") == "default" else form.get("value", "").strip()
        alter_configs(self._parts.config, form["group"], {name: value}, _TIMEOUT_S)


def _offset(row: PartitionView, to: str, text: str) -> int:
    if row.log is None:
        raise HTTPException(503, "the offsets of the log are currently not known")
    if to in ("earliest", "latest"):
        return row.log.start if to == "earliest" else row.log.end
    offset = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not row.log.start <= offset <= row.log.end:
        raise HTTPException(400, f"offset must be within the log, {row.log.start} to {row.log.end}")
    return offset


async def _form(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise HTTPException(415, "the request is not an HTML form (application/x-www-form-urlencoded)")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > _MAX_BYTES:
                raise HTTPException(413, "the form is too long")
    except ClientDisconnect:
        raise HTTPException(400, "the form is incomplete") from None
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise HTTPException(400, "the form cannot be decoded") from None
    return {name: values[0] for name, values in found.items()}
