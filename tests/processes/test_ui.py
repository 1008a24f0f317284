"""The page in a real browser, over its real server; the tables are those of a sample history, the logs are given."""

from __future__ import annotations

import shutil
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from sharegroup.cli.servers.page_process import running_page
from sharegroup.config import Config, GatewayConfig, JobConfig
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.testing.ports import free_port
from sharegroup.testing.samples.sample_history import GROUP_ID, TOPIC, write_sample_history
from sharegroup.ui.data.logs import Payload
from sharegroup.ui.server import PageServer, PageUnavailableError
from tests.unit.ui.seen import SeenLogs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PLACE = f"group={GROUP_ID}&topic={TOPIC}&partition=0"
PAYLOAD = Payload(0, b"key", b'{"note": "<img src=x onerror=document.title=1>"}', ())


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = str(tmp_path_factory.mktemp("tables"))
    write_sample_history(path, minutes=6)
    return Config(job=JobConfig(**{"tables.path": path}))


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[PageServer]:
    with served(PageServer(config, "127.0.0.1", 0, logs=SeenLogs(PAYLOAD))) as page:
        yield page


@contextmanager
def served(page: PageServer) -> Iterator[PageServer]:
    """Serve a page inside the `with` block."""
    thread = threading.Thread(target=page.serve)
    thread.start()
    try:
        yield page
    finally:
        page.stop()
        thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=600_000)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser, server: PageServer) -> Iterator[Page]:
    """A phone's width; whatever the console says, as of what the policy forbids, fails the test."""
    context = chromium.new_context(base_url=server.address, viewport={"width": 390, "height": 800})
    opened = context.new_page()
    opened.set_default_timeout(120_000)
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto("/")
    opened.locator("#live a", has_text=GROUP_ID).wait_for()  # the page renews itself until the first look is there
    yield opened
    context.close()
    assert said == []


def test_from_the_groups_to_a_record_and_its_payload(page: Page) -> None:
    page.locator("#live a", has_text=GROUP_ID).click()
    page.locator("td a", has_text=TOPIC).first.click()
    page.locator("svg.window rect.k-acknowledged, svg.window rect.k-acquired").first.wait_for()
    before = page.locator(".ends span").nth(1).inner_text()
    page.locator("svg.window .zone").nth(2).click()
    page.wait_for_url("**first=**")
    assert page.locator(".ends span").nth(1).inner_text() != before
    page.locator("input[name=offset]").fill("7")
    page.locator("button", has_text="show").click()
    page.locator("td", has_text="fetch").first.wait_for()
    page.locator("a", has_text="json").click()
    page.wait_for_url("**json**")
    assert page.locator("pre").last.inner_text() == '{\n  "note": "<img src=x onerror=document.title=1>"\n}'
    assert page.title().startswith(TOPIC)


def test_no_page_is_wider_than_a_phone(page: Page) -> None:
    for path in ("/", f"/group?group={GROUP_ID}", f"/window?{PLACE}", f"/record?{PLACE}&offset=7", "/dead-ends"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_users_log_in_over_https(config: Config, pems: Path, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(hash_password("alice", "secret"), encoding="utf-8")
    acls = tmp_path / "acls.yaml"
    acls.write_text('[{principal: "User:alice", resource: cluster, operations: [Describe]}]', encoding="utf-8")
    keys = {
        "gateway.ssl.certificate.location": str(pems / "cert.pem"),
        "gateway.ssl.key.location": str(pems / "key.pem"),
        "gateway.sasl.users.location": str(users),
        "gateway.acls.location": str(acls),
    }
    secured = Config(job=config.job, gateway=GatewayConfig(**keys))
    with served(PageServer(secured, "127.0.0.1", 0, logs=SeenLogs())) as page:
        assert page.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=pems / "cert.pem")
        trusted.check_hostname = False  # it is localhost's
        with httpx2.Client(base_url=page.address, verify=trusted, timeout=120) as client:
            refused = client.get("/")
            assert (refused.status_code, refused.headers["www-authenticate"][:5]) == (401, "Basic")
            assert client.get("/", auth=("alice", "wrong")).status_code == 401
            _await(lambda: GROUP_ID in client.get("/", auth=("alice", "secret")).text)
            users.write_text(hash_password("alice", "another"), encoding="utf-8")
            _await(lambda: client.get("/", auth=("alice", "another")).status_code == 200)
            acls.write_text("[]", encoding="utf-8")
            _await(lambda: GROUP_ID not in client.get("/", auth=("alice", "another")).text)
    with pytest.raises(httpx2.TransportError):
        httpx2.get(page.address, verify=trusted)


def test_an_address_in_use_is_told(server: PageServer, config: Config) -> None:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    with pytest.raises(PageUnavailableError, match=f"127.0.0.1:{port}"):
        PageServer(config, "127.0.0.1", port, logs=SeenLogs())


def test_the_page_beside_a_gateway_lives_as_long_as_it(config: Config, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "job.yaml"
    paths = f"tables.path: {config.job.tables_path}, checkpoint.path: {tmp_path}/checkpoint"
    file.write_text(f'job: {{bootstrap.servers: "127.0.0.1:{free_port()}", {paths}}}', encoding="utf-8")
    with running_page(file, port, None):
        _await(lambda: _answers(port))
    assert not _answers(port)
    with running_page(file, 0, None):
        assert not _answers(port)


def _answers(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 200
    except httpx2.TransportError:
        return False


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
