"""Whether a token is what it says: a JWT (RFC 7519), signed by a key of ours, from our issuer, for us, of this hour.

PyJWT checks signature and claims. It is the most used of Python's libraries for it, has types, and one dependency
(`cryptography`), whose RSA and elliptic curves any other would need as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jwt

from sharegroup.config.keys.login_names import ALGORITHMS
from sharegroup.security.authentication.oauth_bearer import AcceptedToken
from sharegroup.security.authentication.sasl_exchange import LoginRefusedError
from sharegroup.security.authentication.token_keys import TokenKeys
from sharegroup.security.kept import Kept

_REFUSED = "the token is not accepted"


class TokenCheck:
    """Checks tokens against the keys of the moment.

    A token has to be from `issuer`, for one of `audiences`, signed by one of `algorithms`; the time may be off by
    `skew_s` seconds. `claim` has the user's name.
    """

    def __init__(
        self,
        keys: Kept[TokenKeys],
        issuer: str,
        audiences: Sequence[str],
        claim: str = "sub",
        algorithms: Sequence[str] = ALGORITHMS,
        skew_s: int = 30,
    ) -> None:
        self._keys, self._issuer, self._audiences = keys, issuer, audiences
        self._claim, self._algorithms, self._skew_s = claim, algorithms, skew_s

    def lacks_key(self, token: str) -> bool:
        """Whether the token names a key that is not known; False for what is no token."""
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError):
            return False
        return not self._keys.value.has(key_id)

    def __call__(self, token: str) -> AcceptedToken:
        """Whom the token names, and until when it counts. Raises LoginRefusedError, whose reason has none of it."""
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
            raise LoginRefusedError(_REFUSED, f"the token is refused ({type(error).__name__})") from None
        return AcceptedToken(_name(claims, self._claim), (expires_s + self._skew_s) * 1_000)

    def _key(self, header: dict[str, Any]) -> jwt.PyJWK:
        """Raises LoginRefusedError, and jwt.PyJWTError for a key that does not fit."""
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise LoginRefusedError(_REFUSED, "the token is signed by an algorithm that is not allowed")
        key = self._keys.value.key(header.get("kid"), algorithm)
        if key is None:
            raise LoginRefusedError(_REFUSED, "the token is signed by a key that is not known")
        return key


def _name(claims: dict[str, Any], claim: str) -> str:
    """The user's name. Raises LoginRefusedError."""
    name = claims[claim]
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise LoginRefusedError(_REFUSED, f"the token's claim {claim} is no name")
    return name
