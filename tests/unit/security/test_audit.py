"""The audit log: one line for each event, with caller and subject, that clients cannot forge."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.wire.request import api_name
from sharegroup.security import audit
from sharegroup.security.acl import Acl
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller

ALICE = Caller(1, 0, "10.0.0.7", "User:alice", api="ShareFetch")
Said = Callable[[], list[str]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """Return a function that returns the lines so far."""
    caplog.set_level(logging.INFO, audit.logger.name)
    return lambda: [record.getMessage() for record in caplog.records if record.name == audit.logger.name]


def test_logins_are_logged(said: Said) -> None:
    audit.log_login(ALICE, "PLAIN")
    audit.log_rejected_login("10.0.0.8", "SCRAM-SHA-256", "bob", "the password is wrong")
    audit.log_rejected_login("10.0.0.8", "TLS", "", "CERTIFICATE_VERIFY_FAILED")
    assert said() == [
        "login outcome=accepted principal=User:alice address=10.0.0.7 mechanism=PLAIN",
        'login outcome=refused claimed=bob address=10.0.0.8 mechanism=SCRAM-SHA-256 reason="the password is wrong"',
        "login outcome=refused address=10.0.0.8 mechanism=TLS reason=CERTIFICATE_VERIFY_FAILED",
    ]


def test_changes_are_logged(said: Said) -> None:
    audit.log_change(ALICE, "group", "billing", detail="share.isolation.level")
    audit.log_change(ALICE, "group", "billing", int(ErrorCode.NON_EMPTY_GROUP))
    who = "principal=User:alice address=10.0.0.7 api=ShareFetch resource=group:billing"
    assert said() == [
        f"change outcome=done {who} detail=share.isolation.level",
        f"change outcome=failed {who} error=NON_EMPTY_GROUP",
    ]


def test_denial_by_the_list_is_logged(said: Said) -> None:
    authorization = Authorization(Acl([]))
    with pytest.raises(RequestError):
        authorization.authorize_fetch(ALICE, "billing")
    assert not authorization.may_read(ALICE, "orders")
    assert not authorization.may_see(ALICE, "orders")  # leaving a topic out of a list is not a denial
    who = "access outcome=refused principal=User:alice address=10.0.0.7 api=ShareFetch operation=READ"
    assert said() == [f"{who} resource=group:billing", f"{who} resource=topic:orders"]


@pytest.mark.parametrize(
    ("claimed", "shown"),
    [
        ("alice bob", '"alice bob"'),
        ('x" reason=none', r'"x\" reason=none"'),
        ("x\nlogin outcome=accepted", r'"x\nlogin outcome=accepted"'),
        ("x\r\u2028\u0085", r'"x\r\u2028\u0085"'),
        ("jürgen", r'"j\u00fcrgen"'),
        ("a" * 300, "a" * 256 + "..."),
    ],
)
def test_clients_cannot_forge_a_line(said: Said, claimed: str, shown: str) -> None:
    audit.log_rejected_login("10.0.0.8", "PLAIN", claimed, "no")
    (line,) = said()
    assert line == f"login outcome=refused claimed={shown} address=10.0.0.8 mechanism=PLAIN reason=no"


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Return the output of the audit log, set up as in a gateway."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    before, propagates, level = audit.logger.handlers[:], audit.logger.propagate, audit.logger.level
    audit.set_up_audit_log()
    yield written
    audit.logger.handlers, audit.logger.propagate = before, propagates
    audit.logger.setLevel(level)


def test_no_line_is_limited_or_filtered(stderr: io.StringIO) -> None:
    """Other log lines are limited in number, and only warnings are written by default."""
    for _ in range(100):
        audit.log_login(ALICE, "PLAIN")
    lines = stderr.getvalue().splitlines()
    assert len(lines) == 100
    assert all(" AUDIT   login outcome=accepted principal=User:alice" in line for line in lines)


def test_caller_has_the_name_of_the_api() -> None:
    assert [api_name(key) for key in (0, 36, 78, 9_999)] == ["Produce", "SaslAuthenticate", "ShareFetch", "9999"]


def test_request_has_one_line_for_each_operation_and_kind(said: Said) -> None:
    authorization = Authorization(Acl([]))
    with audit.collect_denials():
        for number in range(1_000):
            assert not authorization.may_read(ALICE, f"t{number}")
        with pytest.raises(RequestError):
            authorization.authorize_fetch(ALICE, "billing")
        assert said() == []
    who = "access outcome=refused principal=User:alice address=10.0.0.7 api=ShareFetch operation=READ"
    assert said() == [f"{who} resource=topic:t0 others=999", f"{who} resource=group:billing"]
