"""Connection options of administrative commands, such as `--bootstrap-server`, and their error messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharegroup.cli.options.output import warn
from sharegroup.errors import ShareGroupError

if TYPE_CHECKING:
    from sharegroup.kafka_clients.admin import ShareGroupAdmin

CLIENT_ID = "sharegroup-admin"
DEFAULT_TIMEOUT_MS = 30_000

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        envvar="SHAREGROUP_BOOTSTRAP_SERVER", help="host:port of a gateway, or of a broker of Kafka 4.2 or later."
    ),
]
CommandConfig = Annotated[
    Path | None, typer.Option(help="Properties file with connection settings, as for Kafka's tools.")
]
Timeout = Annotated[int, typer.Option(min=1, help="Maximum time to retry, in ms.")]


class CommandError(ShareGroupError):
    """A command cannot be executed. The message states the reason."""


@contextmanager
def admin_client(
    bootstrap_server: str | None, command_config: Path | None, timeout_ms: int
) -> Iterator[ShareGroupAdmin]:
    """Yield an admin client, and close it after the `with` block.

    Raise CommandError or InvalidConfigError for invalid options, and KafkaError if the client cannot connect.
    """
    settings = client_settings(bootstrap_server, command_config)
    from sharegroup.kafka_clients.admin import ShareGroupAdmin

    with ShareGroupAdmin(**settings, timeout_ms=timeout_ms) as admin:
        yield admin


def client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    """Return kafka-python's settings for the command's clients. Also turn off kafka-python's log.

    The log is not needed, because the command itself reports errors. With --verbose, it stays on. Raise CommandError if
    --bootstrap-server is missing or the properties file cannot be read or parsed. Raise InvalidConfigError if a
    property in the file is invalid.
    """
    if not bootstrap_server:
        raise CommandError('Missing required argument "[bootstrap-server]"')
    if not logging.getLogger().isEnabledFor(logging.INFO):
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
    if command_config is None:
        servers = [server.strip() for server in bootstrap_server.split(",")]
        return {"client_id": CLIENT_ID, "bootstrap_servers": servers}
    from sharegroup.kafka_clients.client_settings import python_properties

    properties = read_properties(command_config)
    properties.pop("bootstrap.servers", None)
    return {"client_id": CLIENT_ID, **python_properties(bootstrap_server, properties)}


def read_properties(path: Path) -> dict[str, str]:
    """Return {name: value} of a Java properties file.

    Empty lines, and comments that start with # or !, are skipped. Raise CommandError if the file cannot be read or if
    another line is not name=value.
    """
    try:
        lines = path.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}") from None
    found = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if name.startswith(("#", "!")) or not line.strip():
            continue
        if not equals:
            raise CommandError(f"{path} has a line without name=value")  # not shown, because it may be a secret
        found[name.strip()] = value.strip()
    return found


@contextmanager
def reporting_errors(action: str) -> Iterator[None]:
    """If the `with` block raises ShareGroupError or KafkaError, print one line to standard error and exit with code 1.

    `action` is a part of the line for a Kafka error: "Executing {action} failed due to ...".
    """
    from kafka.errors import KafkaError

    from sharegroup.kafka_clients.admin.errors import error_text

    try:
        yield
    except ShareGroupError as error:
        warn(str(error))
    except KafkaError as error:
        warn(f"Error: Executing {action} failed due to {error_text(error)}")
    else:
        return
    raise typer.Exit(1)
