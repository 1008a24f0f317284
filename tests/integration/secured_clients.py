"""What clients need to get into a secured gateway, and its own side of it: users, tokens, certificates, rights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from kafka.net.sasl.oauth import AbstractTokenProvider

from sharegroup.security.authentication.credentials import SCRAM_MECHANISMS, hash_password
from tests.self_signed import make_pems
from tests.unit.gateway.logins import AUDIENCE, ISSUER, Issuer

#: Mechanisms of SASL, and certificates of clients.
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER, MTLS = "OAUTHBEARER", "mTLS"
MECHANISMS = (*PASSWORDS, OAUTHBEARER, MTLS)
#: The principal of the certificate that `make_pems` makes.
CERTIFIED = r"User:CN=localhost,O=Share\, Group,C=DE"
LIFETIME_S = 3_600

_JAVA_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


class Secrets:
    """The files in `directory`: a certificate, users whose passwords are `<user>'s secret`, keys of tokens, rights."""

    def __init__(self, directory: Path, users: Sequence[str], acl: Sequence[dict[str, object]]) -> None:
        self.directory, self._issuer = make_pems(directory), Issuer()
        self._write("keys.json", self._issuer.jwks())
        self.change(users, acl)
        both = "".join((directory / name).read_text() for name in ("key.pem", "cert.pem"))
        self._write("client.pem", both)

    def change(self, users: Sequence[str], acl: Sequence[dict[str, object]]) -> None:
        """Other users, other rights."""
        lines = [hash_password(user, f"{user}'s secret", tuple(SCRAM_MECHANISMS)) for user in users]
        self._write("users.yaml", "\n".join(lines))
        self._write("acl.yaml", yaml.safe_dump(list(acl)))

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def path(self, name: str) -> str:
        """Where a file is."""
        return str(self.directory / name)

    def gateway(self, mechanism: str = "PLAIN") -> dict[str, object]:
        """Keys of the gateway: all mechanisms of SASL by one, certificates by another, both with TLS and rights."""
        keys: dict[str, object] = {
            "gateway.ssl.certificate.location": self.path("cert.pem"),
            "gateway.ssl.key.location": self.path("key.pem"),
            "gateway.acls.location": self.path("acl.yaml"),
        }
        if mechanism == MTLS:
            return {**keys, "gateway.ssl.client.ca.location": self.path("cert.pem")}
        return {
            **keys,
            "gateway.sasl.users.location": self.path("users.yaml"),
            "gateway.sasl.oauthbearer.jwks.endpoint.url": (self.directory / "keys.json").as_uri(),
            "gateway.sasl.oauthbearer.expected.issuer": ISSUER,
            "gateway.sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def token(self, user: str, lifetime_s: int = LIFETIME_S) -> str:
        """A token for the user."""
        return self._issuer.token(sub=user, lifetime_s=lifetime_s)

    def librdkafka(self, user: str, mechanism: str, lifetime_s: int = LIFETIME_S) -> dict[str, Any]:
        """Settings of confluent-kafka's clients."""
        trusted = {"ssl.ca.location": self.path("cert.pem")}
        if mechanism == MTLS:
            own = {"ssl.certificate.location": self.path("cert.pem"), "ssl.key.location": self.path("key.pem")}
            return {"security.protocol": "SSL", **trusted, **own}
        sasl = {"security.protocol": "SASL_SSL", **trusted, "sasl.mechanism": mechanism}
        if mechanism == OAUTHBEARER:
            return {**sasl, "oauth_cb": lambda _: (self.token(user, lifetime_s), time.time() + lifetime_s)}
        return {**sasl, "sasl.username": user, "sasl.password": f"{user}'s secret"}

    def kafka_python(self, user: str, mechanism: str) -> dict[str, Any]:
        """Settings of kafka-python's clients."""
        trusted = {"ssl_cafile": self.path("cert.pem")}
        if mechanism == MTLS:
            own = {"ssl_certfile": self.path("cert.pem"), "ssl_keyfile": self.path("key.pem")}
            return {"security_protocol": "SSL", **trusted, **own}
        sasl = {"security_protocol": "SASL_SSL", **trusted, "sasl_mechanism": mechanism}
        if mechanism == OAUTHBEARER:
            return {**sasl, "sasl_oauth_token_provider": _Tokens(self, user)}
        return {**sasl, "sasl_plain_username": user, "sasl_plain_password": f"{user}'s secret"}

    def java(self, user: str, mechanism: str) -> tuple[str, list[str]]:
        """(a file of properties for Java's clients and tools, options of their JVM)"""
        lines = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.path("cert.pem")}
        options = []
        if mechanism == MTLS:
            lines |= {"security.protocol": "SSL", "ssl.keystore.type": "PEM"}
            lines["ssl.keystore.location"] = self.path("client.pem")
        else:
            login = _JAVA_LOGINS[mechanism]
            options_of_login = f' username="{user}" password="{user}\'s secret"' if mechanism in PASSWORDS else ""
            lines |= {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
            lines["sasl.jaas.config"] = f"{login} required{options_of_login};"
        if mechanism == OAUTHBEARER:
            token = self._write(f"{user}.jwt", self.token(user))
            package = "org.apache.kafka.common.security.oauthbearer"
            lines["sasl.login.callback.handler.class"] = f"{package}.OAuthBearerLoginCallbackHandler"
            lines["sasl.oauthbearer.jwt.retriever.class"] = f"{package}.FileJwtRetriever"
            lines["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
            options = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"]
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        return str(self._write(f"{user}-{mechanism}.properties", text)), options


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python's source of tokens."""

    def __init__(self, secrets: Secrets, user: str) -> None:
        super().__init__()
        self._secrets, self._user = secrets, user

    def token(self) -> str:
        """A new one."""
        return self._secrets.token(self._user)
