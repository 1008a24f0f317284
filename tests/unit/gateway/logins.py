"""Password mechanisms and tokens for tests of logins."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from sharegroup.security.authentication.credentials import SCRAM_MECHANISMS, Credentials
from sharegroup.security.authentication.password_exchanges import PLAIN, PlainExchange, ScramExchange
from sharegroup.security.authentication.sasl_exchange import Mechanisms

ISSUER, AUDIENCE = "https://login.example.com/", "kafka"


def password_mechanisms(credentials: Credentials, server_nonce: str = "server-nonce") -> Mechanisms:
    """Return PLAIN and SCRAM for these users."""
    scram = {name: partial(ScramExchange, name, credentials, server_nonce) for name in SCRAM_MECHANISMS}
    return {PLAIN: partial(PlainExchange, credentials), **scram}


class Issuer:
    """An issuer that signs tokens with its keys and publishes their public halves; `kid` names a key."""

    def __init__(self, *key_ids: str) -> None:
        self.keys: dict[str, PrivateKeyTypes] = {}
        for key_id in key_ids or ("first",):
            self.add(key_id)

    def add(self, key_id: str, key: PrivateKeyTypes | None = None) -> None:
        """Add a key, by default a new one of an elliptic curve, which is generated quickly."""
        self.keys[key_id] = key or ec.generate_private_key(ec.SECP256R1())

    @staticmethod
    def rsa_key() -> PrivateKeyTypes:
        """Return a key for RS256 and PS256."""
        return rsa.generate_private_key(65_537, 2_048)

    def jwks(self, **more: Any) -> str:
        """Return the key set; each key has the fields `more`."""
        return json.dumps({"keys": [{**self.public(key_id), **more} for key_id in self.keys]})

    def public(self, key_id: str) -> dict[str, Any]:
        """Return a public key of the set."""
        key = self.keys[key_id].public_key()  # type: ignore[union-attr]
        algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else ECAlgorithm
        return {**algorithm.to_jwk(key, as_dict=True), "kid": key_id, "use": "sig"}  # type: ignore[arg-type]

    def token(self, key_id: str = "first", algorithm: str = "ES256", lifetime_s: int = 600, **claims: Any) -> str:
        """Return a token for alice. Claims that are None are omitted."""
        now_s = int(time.time())
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now_s, "exp": now_s + lifetime_s}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(given, self.keys[key_id], algorithm, headers={"kid": key_id})  # type: ignore[arg-type]


def bearer(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    """Return the client's message with a token."""
    named = f"a={authorization_id}" if authorization_id else ""
    return f"n,{named},\x01auth=Bearer {token}\x01{extensions}\x01".encode()
