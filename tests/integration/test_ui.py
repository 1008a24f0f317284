"""The page as the process that an operator starts, beside the real job: what it shows, and what it changes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest

from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import PATIENCE_S

if TYPE_CHECKING:
    from tests.integration.conftest import NewTopic


@pytest.fixture
def page(share_group_job: ShareGroupJobRun) -> Iterator[httpx2.Client]:
    command = [sys.executable, "-m", "sharegroup.cli", "ui", "--config", str(share_group_job.config_path)]
    process = subprocess.Popen([*command, "--port", "0", "--allow-changes"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        with httpx2.Client(base_url=said.removeprefix("ui: ").strip(), timeout=PATIENCE_S) as client:
            yield client
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _shown(page: httpx2.Client, path: str, params: dict[str, str], text: str) -> str:
    """The page once it shows a text: it does with its next look."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in (found := page.get(path, params=params).text):
        assert time.monotonic() < deadline, f"{path} does not show {text}: {found}"
        time.sleep(0.5)
    return found


def test_a_group_is_watched_and_changed(
    page: httpx2.Client,
    share_group_job: ShareGroupJobRun,
    new_topic: NewTopic,
) -> None:
    topic, group_id, client = new_topic(records=8), share_group_job.new_group(), share_group_job.client()
    join = HeartbeatRequest(
        client.next_id(), group_id, client.reply_to, member_id=client.reply_to, member_epoch=0,
        subscribed_topic_names=(topic,), topics={topic: TopicMetadata(client.topic_id(topic), 1)},
    )  # fmt: skip
    assert isinstance(client.call(join), HeartbeatResponse)
    group = {"group": group_id}
    shown = _shown(page, "/group", group, client.reply_to)
    token = re.search('name="token" value="([0-9a-f]+)"', shown)
    assert token is not None
    form = group | {"token": token[1], "topic": topic, "partition": "0"}

    def change(what: str, **more: str) -> httpx2.Response:
        return page.post(f"/change/{what}", data=form | more)

    assert "NON_EMPTY_GROUP" in change("reset", to="offset", offset="5").text
    assert change("remove-member", member=client.reply_to).status_code == 303
    _shown(page, "/", {"text": group_id}, "Empty</span>")

    refused = change("config", name="share.delivery.count.limit", value="-7")
    assert (refused.status_code, "INVALID_CONFIG" in refused.text) == (409, True)
    assert change("config", name="share.delivery.count.limit", value="7").status_code == 303
    _shown(page, "/group", group, '<td>7</td><td class="faint">dynamic group config</td>')

    assert change("reset", to="offset", offset="5").status_code == 303
    place = group | {"topic": topic, "partition": "0"}
    _shown(page, "/window", place, "<dt>start offset</dt><dd>5</dd>")
    _shown(page, "/window", place, "<dt>lag</dt><dd>3</dd>")
    _shown(page, "/record", place | {"offset": "6", "payload": "text"}, "<pre>")
    _shown(page, "/record", place | {"offset": "800", "payload": "hex"}, "no record at this offset")
