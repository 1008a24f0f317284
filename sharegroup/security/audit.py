"""The audit log: logins, denied access, and changes by administrators.

Each event is one line of the logger `sharegroup.audit`: the event's name, then key=value pairs.

    login outcome=accepted principal=User:alice address=10.0.0.7 mechanism=SCRAM-SHA-512
    login outcome=refused claimed=alice address=10.0.0.7 mechanism=PLAIN reason="the password is wrong"
    access outcome=refused principal=User:alice address=10.0.0.7 api=ShareFetch operation=Read resource=group:billing
    access outcome=refused principal=User:bob address=10.0.0.8 api=Fetch operation=Read resource=topic:a others=8
    change outcome=done principal=User:admin address=10.0.0.7 api=DeleteGroups resource=group:billing

If several resources of a request are denied, one line is written for each operation and resource type. This line names
the first denied resource, and `others` is the number of further ones.

Values from clients are quoted as JSON unless they are plain, so that a client cannot forge a line. The log contains no
passwords, tokens or config values.
"""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from sharegroup.errors import error_name
from sharegroup.security.caller import Caller

logger = logging.getLogger("sharegroup.audit")

_PLAIN: Final = re.compile(r"[\w.,:/*@%+-]+", re.ASCII)
#: Number of characters to which values are truncated, because names of groups and users may have 32 KB.
_LONGEST = 256
#: {(caller, operation, resource type): denied names} of the current request.
_Denials = dict[tuple[Caller, str, str], dict[str, None]]
_denials: ContextVar[_Denials | None] = ContextVar("denials", default=None)


def set_up_audit_log() -> None:
    """Write the audit log to standard error, whatever the settings of other logs are. Call this once per process."""
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(asctime)s AUDIT   %(message)s"))
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def log_login(caller: Caller, mechanism: str) -> None:
    """Log a login by SASL or TLS, or a reauthentication on the same connection."""
    _write("login", outcome="accepted", principal=caller.principal, address=caller.host, mechanism=mechanism)


def log_rejected_login(host: str, mechanism: str, claimed: str, reason: str) -> None:
    """Log a rejected login. `host` is the client's address, and `claimed` is the user name that the client sent."""
    _write("login", outcome="refused", claimed=claimed, address=host, mechanism=mechanism, reason=reason)


@contextmanager
def collect_denials() -> Iterator[None]:
    """Collect the denials of one request during the `with` block.

    At the end of the block, log one line for each caller, operation and resource type.
    """
    denials: _Denials = {}
    token = _denials.set(denials)
    try:
        yield
    finally:
        _denials.reset(token)
        for (caller, operation, kind), names in denials.items():
            _write_denial(caller, operation, kind, next(iter(names)), len(names) - 1)


def log_denied_access(caller: Caller, operation: str, kind: str, name: str) -> None:
    """Log that access to a resource was denied. `kind` is the type of the resource.

    Within a block of `collect_denials`, the line is written when the block ends.
    """
    denials = _denials.get()
    if denials is None:
        _write_denial(caller, operation, kind, name, 0)
    else:
        denials.setdefault((caller, operation, kind), {})[name] = None


def log_change(caller: Caller, kind: str, name: str, error_code: int = 0, detail: str = "") -> None:
    """Log that an administrator's change was carried out or failed.

    `kind` and `name` identify the changed resource. `detail` names the changed part of it, such as a topic or a member.
    """
    error = error_name(error_code) if error_code else ""
    outcome = "failed" if error_code else "done"
    _write("change", **_by(outcome, caller), resource=f"{kind}:{name}", error=error, detail=detail)


def _write_denial(caller: Caller, operation: str, kind: str, name: str, others: int) -> None:
    rest = {"others": str(others)} if others else {}
    _write("access", **_by("refused", caller), operation=operation, resource=f"{kind}:{name}", **rest)


def _by(outcome: str, caller: Caller) -> dict[str, str]:
    return {"outcome": outcome, "principal": caller.principal, "address": caller.host, "api": caller.api}


def _write(event: str, **values: str) -> None:
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", " ".join([event, *(f"{key}={_quoted(value)}" for key, value in values.items() if value)]))


def _quoted(value: str) -> str:
    shown = value if len(value) <= _LONGEST else value[:_LONGEST] + "..."
    return shown if _PLAIN.fullmatch(shown) else json.dumps(shown)
