"""ShareGroupAdmin with a scripted server whose coordinators move, load, disconnect and reject."""

from __future__ import annotations

import socketserver
import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    NotCoordinatorError,
    UnsupportedVersionError,
)
from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.kafka_clients.admin import ShareGroupAdmin, connecting
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse

LOADING, NOT_COORDINATOR, NOT_AUTHORIZED, HANG_UP = 14, 16, 30, -100
TIMEOUT_MS = 600_000

_REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        FindCoordinatorRequest,
        DeleteGroupsRequest,
        ShareGroupDescribeRequest,
    )
}


class ScriptedServer(socketserver.ThreadingTCPServer):
    """A broker that coordinates every group.

    Each ShareGroupDescribe uses the next entry of `script`, an error code or HANG_UP, and succeeds after the last one.
    The first `hang_ups` requests get no response. `closed` are groups whose coordinator may not be described.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.script: deque[int] = deque()
        self.closed: set[str] = set()
        self.hang_ups = 0
        self.versions = {18: 4, 3: 12, 10: 6, 42: 2, 77: 1}
        self.described: list[list[str]] = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.shutdown()
        self.server_close()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self, request: Any) -> Any:
        """Return the response, None to disconnect."""
        if self.hang_ups:
            self.hang_ups -= 1
            return None
        return {
            18: self._api_versions,
            3: self._metadata,
            10: self._find_coordinator,
            42: self._delete,
            77: self._describe,
        }[request.API_KEY](request)

    def _api_versions(self, request: Any) -> Any:
        key = ApiVersionsResponse.ApiVersion
        keys = [key(api_key=k, min_version=0, max_version=v) for k, v in self.versions.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _metadata(self, request: Any) -> Any:
        port = self.server_address[1]
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
        return MetadataResponse(throttle_time_ms=0, brokers=[broker], cluster_id="c", controller_id=1, topics=[])

    def _find_coordinator(self, request: Any) -> Any:
        kind, port = FindCoordinatorResponse.Coordinator, self.server_address[1]
        found = [
            kind(
                key=key,
                node_id=1,
                host="127.0.0.1",
                port=port,
                error_code=NOT_AUTHORIZED if key in self.closed else 0,
                error_message=None,
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)

    def _delete(self, request: Any) -> Any:
        kind = DeleteGroupsResponse.DeletableGroupResult
        results = [kind(group_id=group_id, error_code=0) for group_id in request.groups_names]
        return DeleteGroupsResponse(throttle_time_ms=0, results=results)

    def _describe(self, request: Any) -> Any:
        self.described.append(list(request.group_ids))
        code = self.script.popleft() if self.script else 0
        if code == HANG_UP:
            return None
        group = ShareGroupDescribeResponse.DescribedGroup
        groups = [
            group(
                error_code=code,
                error_message=None,
                group_id=group_id,
                group_state="Empty",
                group_epoch=1,
                assignment_epoch=1,
                assignor_name="simple",
                members=[],
                authorized_operations=-(2**31),
            )
            for group_id in request.group_ids
        ]
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups)


class _Connection(socketserver.StreamRequestHandler):
    server: ScriptedServer

    def handle(self) -> None:
        while length := self.rfile.read(4):
            frame = memoryview(self.rfile.read(int.from_bytes(length)))
            header = wire.read_header(frame)
            message, start = _REQUESTS[header.api_key], header.end
            if message.flexible_version_q(header.api_version):
                start = wire.skip_tagged_fields(frame, start)
            answer = self.server.answer(message.decode(bytes(frame[start:]), version=header.api_version))
            if answer is None:
                return
            self.wfile.write(wire.encode_response(answer, header.api_version, header.correlation_id))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as started:
        yield started


@pytest.mark.parametrize("script", [[], [LOADING], [NOT_COORDINATOR, LOADING, LOADING], [HANG_UP], [HANG_UP, LOADING]])
def test_transient_errors_are_retried(server: ScriptedServer, script: list[int]) -> None:
    server.script.extend(script)
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        assert admin.describe_groups(["g", "h", "g"]).keys() == {"g", "h"}
    assert server.described == [["g", "h"]] * (len(script) + 1)


@pytest.mark.parametrize(("code", "error"), [(LOADING, CoordinatorLoadInProgressError), (16, NotCoordinatorError)])
def test_permanent_errors_are_raised(server: ScriptedServer, code: int, error: type[Exception]) -> None:
    server.script.extend([code] * 1_000)
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        admin._brokers._timeout_s = 0.5
        with pytest.raises(error):
            admin.describe_groups(["g"])


def test_rejection_is_not_retried(server: ScriptedServer) -> None:
    server.script.append(NOT_AUTHORIZED)
    refused = pytest.raises(GroupAuthorizationFailedError, match=r"Group authorization failed\.")
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin, refused:
        admin.describe_groups(["g"])
    assert server.described == [["g"]]


def test_rejected_coordinator_is_the_error_of_its_group(server: ScriptedServer) -> None:
    server.closed.add("h")
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        answers = admin.delete_groups(["g", "h"])
    assert answers["g"] is None
    assert isinstance(answers["h"], GroupAuthorizationFailedError)


def test_server_without_share_groups(server: ScriptedServer) -> None:
    del server.versions[77]
    refused = pytest.raises(UnsupportedVersionError, match=r"share groups need Kafka 4\.2 or a gateway")
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin, refused:
        admin.describe_groups(["g"])


def test_server_that_disconnects_everybody(server: ScriptedServer) -> None:
    server.hang_ups = 1_000_000
    before = set(threading.enumerate())
    with pytest.raises(KafkaTimeoutError, match=f"Unable to bootstrap from {server.bootstrap_servers}: "):
        ShareGroupAdmin(server.bootstrap_servers, timeout_ms=500)
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("kafka-io")]


def test_server_that_starts_late(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "FIRST_ATTEMPT_MS", 100)
    server.hang_ups = 8
    with ShareGroupAdmin(server.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        assert admin.describe_groups(["g"])
