"""A broker with users, tokens and an access control list of its own; its plain listener is for the test and the job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.ports import HOST, free_port
from tests.integration.secured_clients import OAUTHBEARER, Secrets
from tests.unit.gateway.logins import AUDIENCE, ISSUER

#: The gateway's own user there.
GATEWAY = "gateway"
_LISTENER = "listener.name.sasl_plaintext"
_LOGIN_MODULES = "org.apache.kafka.common.security"


class SecuredBroker(NamedTuple):
    """`bootstrap_servers` is the listener where everybody has to log in."""

    kafka: EmbeddedKafka
    bootstrap_servers: str

    def allow(self, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """More of the access control list."""
        pattern = ResourcePatternType.LITERAL
        entries = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        for done in admin.create_acls(entries).values():
            done.result(30)


@contextlib.contextmanager
def secured_broker(
    secrets: Secrets, users: Iterable[str], *, lifetime_ms: int = 0, share_version: int = 0
) -> Iterator[SecuredBroker]:
    """Users' passwords are `<user>'s secret`; tokens are those of `secrets`.

    `lifetime_ms` ends the sessions of users with passwords; 0 ends none.
    """
    plain, secured, controller = (f"{HOST}:{free_port()}" for _ in range(3))
    passwords = " ".join(f'user_{user}="{user}\'s secret"' for user in (GATEWAY, *users))
    keys = (secrets.directory / "keys.json").as_uri()
    tokens = f"{_LISTENER}.oauthbearer.sasl"
    properties = {
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{secured},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{secured}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@{controller}",
        "sasl.enabled.mechanisms": f"PLAIN,{OAUTHBEARER}",
        f"{_LISTENER}.plain.sasl.jaas.config": f"{_LOGIN_MODULES}.plain.PlainLoginModule required {passwords};",
        f"{tokens}.jaas.config": f"{_LOGIN_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        f"{tokens}.server.callback.handler.class": f"{_LOGIN_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"{_LISTENER}.plain.connections.max.reauth.ms": str(lifetime_ms),
        "super.users": f"User:ANONYMOUS;User:{GATEWAY}",
    }
    port = int(plain.rpartition(":")[2])
    with _java_option(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"):
        kafka = EmbeddedKafka(port, properties=properties, features={"share.version": share_version})
        kafka.start()
    with contextlib.ExitStack() as stack:
        stack.push(kafka)
        yield SecuredBroker(kafka, secured)


@contextlib.contextmanager
def _java_option(option: str) -> Iterator[None]:
    before = os.environ.get("KAFKA_OPTS")
    os.environ["KAFKA_OPTS"] = option if before is None else f"{before} {option}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KAFKA_OPTS"]
        else:
            os.environ["KAFKA_OPTS"] = before


def login_of_gateway() -> dict[str, str]:
    """Properties of the gateway's clients, by Java's names."""
    module = f"{_LOGIN_MODULES}.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{GATEWAY}" password="{GATEWAY}\'s secret";',
    }
