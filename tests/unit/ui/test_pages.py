"""Pages as a browser gets them: content, escaping, access control and changes."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from sharegroup.config import Config, GatewayConfig
from sharegroup.errors import InvalidConfigError
from sharegroup.security.acl import load_acl
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.ui.server import PageServer
from tests.unit.ui.seen import browser, group, many_ranges, partition, parts

ACLS = """
- {principal: "User:ANONYMOUS", resource: group, name: mine, operations: [Describe]}
- {principal: "User:ANONYMOUS", resource: topic, name: orders, operations: [Describe]}
"""
HOSTILE = "<script>alert(1)</script>\"'&/?#\u202e"


def test_groups_are_filtered_sorted_and_paged() -> None:
    page = browser(parts([group(f"team-{n:04}", lag=n) for n in range(1_000)] + [group("Billing", members=["m"])]))
    first = page.get("/?sort=lag").text
    assert re.findall("team-\\d+</a>", first)[:2] == ["team-0999</a>", "team-0998</a>"]
    assert first.count("<tr>") == 51
    assert "page 1 of 21, 1,001 rows" in first
    assert "team-0999" in page.get("/?text=TEAM&page=20").text
    assert re.findall("group=(\\w+)", page.get("/?state=Stable&text=bill").text) == ["Billing"]


def test_names_are_escaped() -> None:
    page = browser(parts([group(HOSTILE, [partition(topic="a")], members=[HOSTILE])], problems=[HOSTILE]))
    for path in ("/", "/group", "/window", "/nowhere"):
        shown = page.get(path, params={"group": HOSTILE, "topic": "a", "partition": "0", "text": HOSTILE}).text
        assert "<script>alert" not in shown
    assert page.get("/group", params={"group": HOSTILE}).status_code == 200


def test_invalid_queries_do_not_fail() -> None:
    page = browser(parts([group("g", [partition()])]))
    place = "group=g&topic=orders&partition=0"
    assert page.get("/?page=x&sort=y&state=z&path=1&query=2&self=3").status_code == 200
    for query in ("first=9&last=3", "first=-1&last=x", "first=5000&last=6000", "page=99999999999999999999"):
        assert page.get(f"/window?{place}&{query}").status_code == 200
    assert page.get("/group?group=other").status_code == 404
    assert page.get("/window?group=g&topic=orders&partition=7").status_code == 404
    assert page.get(f"/record?{place}&offset=x").status_code == 400


def test_a_window_of_a_hundred_thousand_ranges_is_a_small_page() -> None:
    batches = many_ranges(100_000, [f"m-{n}" for n in range(20)])
    page = browser(parts([group("huge", [partition(0, batches, end=300_000)], members=["m-1"])]))
    shown = page.get("/window?group=huge&topic=orders&partition=0").text
    assert shown.count("<rect") < 240 * 6 + 240 + 24
    assert "12 other members" in shown
    closer = page.get("/window?group=huge&topic=orders&partition=0&first=100&last=103").text
    assert "4 records" in closer
    assert "/record?" in closer


def test_a_browser_may_only_load_resources_of_the_page() -> None:
    page = browser(parts([]))
    answer = page.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
    assert answer.headers["cache-control"] == "no-store"
    for source in re.findall('(?:src|href)="(/static/[^"]+)"', answer.text):
        assert page.get(source).status_code == 200
    assert not re.search(r'style="|\son\w+="|(src|href)="(https?:)?//', answer.text)


def test_a_foreign_host_name_is_rejected(tmp_path: Path) -> None:
    page = browser(parts([]))
    assert page.get("/", headers={"host": "evil.example"}).status_code == 421
    for host in ("localhost:9180", "127.0.0.1:9180", "[::1]:9180"):
        assert page.get("/", headers={"host": host}).status_code == 200


def _basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_users_log_in_as_in_the_gateway(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(hash_password("alice", "s3cret:ä"), encoding="utf-8")
    config = GatewayConfig(**{"gateway.sasl.users.location": str(users)})
    page = browser(parts([group("g")]), config)
    for headers in ({}, _basic("alice", "wrong"), _basic("bob", "s3cret:ä"), {"authorization": "Basic %%%"}):
        answer = page.get("/group?group=g", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert "orders" not in answer.text
    for _ in range(2):
        assert page.get("/group?group=g", headers=_basic("alice", "s3cret:ä")).status_code == 200
    assert page.get("/static/ui.css").status_code == 401


def test_the_access_control_list_applies(tmp_path: Path) -> None:
    acls = tmp_path / "acls.yaml"
    acls.write_text(ACLS, encoding="utf-8")
    page = browser(parts([group("mine", [partition()]), group("theirs")], acl=load_acl(str(acls)), allows_changes=True))
    shown = page.get("/").text
    assert "mine" in shown
    assert "theirs" not in shown
    assert page.get("/group?group=theirs").status_code == 403
    assert page.get("/dead-ends").status_code == 403
    assert page.get("/dead-ends?group=theirs").status_code == 403
    token = re.search('name="token" value="([0-9a-f]+)"', page.get("/group?group=mine").text)
    assert token is not None
    form = {"token": token[1], "group": "mine", "topic": "orders", "partition": "0", "to": "latest", "name": "x"}
    for path in ("reset", "config", "remove-member"):
        answer = page.post(f"/change/{path}", data=form | {"member": "m"})
        assert (answer.status_code, "is not authorized" in answer.text) == (403, True)


def test_a_public_listener_without_users_is_rejected() -> None:
    with pytest.raises(InvalidConfigError, match=r"gateway\.ui\.host"):
        PageServer(Config(), "0.0.0.0", 0)


FORM = {"group": "g", "topic": "orders", "partition": "0", "to": "offset", "offset": "5000"}


def test_changes_require_the_option_a_token_and_valid_values() -> None:
    read_only = browser(parts([group("g", [partition()])]))
    assert "<form" not in re.sub('<form class="filter".*?</form>', "", read_only.get("/group?group=g").text, flags=re.S)
    assert read_only.post("/change/reset", data=FORM).status_code == 403

    page = browser(parts([group("g", [partition()])], allows_changes=True))
    token = re.search('name="token" value="([0-9a-f]+)"', page.get("/group?group=g").text)
    assert token is not None
    whole = FORM | {"token": token[1]}
    assert page.post("/change/reset", data=FORM).status_code == 403
    assert page.post("/change/reset", data=FORM | {"token": "0" * 64}).status_code == 403
    assert page.post("/change/reset", data=whole, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert page.get("/change/reset", params=whole).status_code == 405
    outside = page.post("/change/reset", data=whole)
    assert outside.status_code == 400
    assert "offset must be within the log, 0 to 1000" in outside.text
    assert page.post("/change/reset", data=whole | {"partition": "9"}).status_code == 404
    assert page.post("/change/remove-member", data=whole).status_code == 400
    assert page.post("/change/config", data=whole).status_code == 400
    assert page.post("/change/config", content=b"x" * 70_000, headers=_FORM_TYPE).status_code == 413
    assert page.post("/change/config", json={}).status_code == 415


_FORM_TYPE = {"content-type": "application/x-www-form-urlencoded"}
