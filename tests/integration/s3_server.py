"""A real S3 server as a child process, for tests: S3Proxy, with the buckets as directories below one.

    with S3Server(directory) as s3:
        s3.make_bucket("lake")
        DeltaTable("s3a://lake/tables/share_groups", storage_options=s3.options)

It checks signatures, and a PUT with `If-None-Match: *` makes an object or fails, whoever else does the same. `kill` and
`start` are an outage: it comes back on the same port, with all that was written.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sharegroup.spark.jars import QUICK_START, jars, java
from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import HOST, free_port

if TYPE_CHECKING:
    from typing import Self

_LISTENING = "ServerConnector@"
_LOG = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %logger %msg%n</pattern></encoder>
  </appender>
  <logger name="org.gaul.shaded.org.eclipse.jetty.server.AbstractConnector" level="INFO"/>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


class S3Server(LoggedProcess):
    """Starts and ends a server. `directory` holds its files and its log. Raises JarsError."""

    def __init__(self, directory: Path, access_key: str = "reader", secret_key: str = "its-secret") -> None:
        self._access_key, self._secret_key = access_key, secret_key
        self._directory, self._buckets = directory, directory / "buckets"
        self._buckets.mkdir()
        self._port = free_port()
        settings, log = directory / "s3proxy.properties", directory / "logback.xml"
        log.write_text(_LOG)
        class_path = ":".join(str(jar) for jar in jars("s3-server"))
        command = [java(), *QUICK_START, "-Xmx128m", f"-Dlogback.configurationFile={log}", "-cp", class_path]
        super().__init__(
            "S3 server", [*command, "org.gaul.s3proxy.Main", "--properties", str(settings)], directory / "s3.log"
        )
        self._settings = settings

    def start(self) -> Self:
        """Start the process; returns when its port is open. Raises LoggedProcessError."""
        self._settings.write_text(
            f"s3proxy.endpoint=http://{HOST}:{self._port}\n"
            "s3proxy.authorization=aws-v4\n"
            f"s3proxy.identity={self._access_key}\n"
            f"s3proxy.credential={self._secret_key}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={self._buckets}\n"
        )
        self._start_until(_LISTENING)
        return self

    @property
    def options(self) -> dict[str, str]:
        """As `tables.storage.options` has them, and `storage_options`."""
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self._port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
        }

    def make_bucket(self, name: str) -> str:
        """A new bucket; its URL."""
        (self._buckets / name).mkdir()
        return f"s3a://{name}"

    def objects(self, bucket: str) -> list[str]:
        """The keys in a bucket."""
        root = self._buckets / bucket
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def remove(self, bucket: str, folder: str) -> None:
        """Remove the objects below a folder."""
        shutil.rmtree(self._buckets / bucket / folder)
