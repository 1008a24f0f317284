"""Verifies tokens. A token must be a JWT (RFC 7519) with a valid signature, issuer, audience and lifetime.

PyJWT verifies signature and claims. It is the most used library for tokens and has type annotations. Its only
dependency is `cryptography`, which any such library needs for RSA and elliptic curves.
"""

from collections.abc import Sequence
from typing import Any

import jwt

from sharegroup.config.keys.login_names import ALGORITHMS
from sharegroup.security.authentication.oauth_bearer import AcceptedToken
from sharegroup.security.authentication.sasl_exchange import LoginRejectedError
from sharegroup.security.authentication.token_keys import TokenKeys
from sharegroup.security.reloading import Reloading

_REJECTED = "the token was rejected"


class TokenCheck:
    """Verifies tokens with the current keys.

    A token must be from `issuer`, for one of `audiences`, and signed by one of `algorithms`. Clocks may differ by
    `skew_s` seconds. `claim` is the name of the claim that contains the user's name.
    """

    def __init__(
        self,
        keys: Reloading[TokenKeys],
        issuer: str,
        audiences: Sequence[str],
        claim: str = "sub",
        algorithms: Sequence[str] = ALGORITHMS,
        skew_s: int = 30,
    ) -> None:
        self._keys, self._issuer, self._audiences = keys, issuer, audiences
        self._claim, self._algorithms, self._skew_s = claim, algorithms, skew_s

    def has_unknown_key(self, token: str) -> bool:
        """Return whether the token names a key that is not among the current keys.

        If the text is not a token, return False.
        """
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError):
            return False
        return not self._keys.value.has_key(key_id)

    def __call__(self, token: str) -> AcceptedToken:
        """Return the user of a token, and the time until which it is accepted: its expiry time plus `skew_s`.

        Raises LoginRejectedError if the token is invalid. The reason in this error does not contain the token.
        """
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header)
            claims = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=self._audiences,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={"require": ["exp", "iss", "aud", self._claim]},
            )
            expires_s = int(claims["exp"])
        except (jwt.PyJWTError, ValueError, OverflowError) as error:
            raise LoginRejectedError(_REJECTED, f"the token is invalid ({type(error).__name__})") from None
        return AcceptedToken(_name(claims, self._claim), (expires_s + self._skew_s) * 1_000)

    def _key(self, header: dict[str, Any]) -> jwt.PyJWK:
        """Return the key that the token's `header` names and that its signature must match.

        Raises LoginRejectedError if the key is unknown or the algorithm is not allowed, and jwt.PyJWTError if the key
        does not fit the algorithm.
        """
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise LoginRejectedError(_REJECTED, "the token is signed by an algorithm that is not allowed")
        key = self._keys.value.get_key(header.get("kid"), algorithm)
        if key is None:
            raise LoginRejectedError(_REJECTED, "the token is signed by an unknown key")
        return key


def _name(claims: dict[str, Any], claim: str) -> str:
    """Return the user's name from the claims. Raises LoginRejectedError if it is not a printable text."""
    name = claims[claim]
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise LoginRejectedError(_REJECTED, f"the value of the token's claim {claim} is not a valid user name")
    return name
