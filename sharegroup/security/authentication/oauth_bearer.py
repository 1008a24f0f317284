"""The SASL mechanism OAUTHBEARER (RFC 7628, KIP-255, KIP-768): a login with a token. Does no I/O itself.

As in Kafka, the server answers a rejected token with the message `{"status":"invalid_token"}`. The login fails after
the client has confirmed this message.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.security.authentication.sasl_exchange import ExchangeStep, LoginRejectedError

OAUTHBEARER = "OAUTHBEARER"
MAX_MESSAGE_BYTES = 16_384
_REJECTED = "the token was rejected"
_CHALLENGE = b'{"status":"invalid_token"}'
_MESSAGE = re.compile(r"n,(?:a=([^,\x00\x01]*))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_TOKEN = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([-A-Za-z0-9._~+/]+=*)")


class AcceptedToken(NamedTuple):
    """The user of a token, and the time until which the token is accepted (ms since the epoch)."""

    user: str
    valid_until_ms: int


class OAuthBearerExchange:
    """A login with a token.

    `check` verifies a token: it returns the token's user and validity, or raises LoginRejectedError.
    """

    max_message_bytes = MAX_MESSAGE_BYTES

    def __init__(self, check: Callable[[str], AcceptedToken]) -> None:
        self._check = check
        self._refusal: LoginRejectedError | None = None
        self.claimed = ""

    def respond(self, message: str) -> ExchangeStep:
        """Verify the token in the client's first message.

        If the token is rejected, the first call returns an error message, which the client must confirm (RFC 7628). The
        second call, with the confirmation, raises LoginRejectedError.
        """
        if self._refusal is not None:
            raise self._refusal
        try:
            accepted = self._accepted(message)
        except LoginRejectedError as error:
            self._refusal = error
            return ExchangeStep(_CHALLENGE)
        return ExchangeStep(b"", *accepted)

    def _accepted(self, message: str) -> AcceptedToken:
        authorization_id, token = parse_message(message)
        accepted = self._check(token)
        self.claimed = accepted.user
        if authorization_id not in ("", accepted.user):
            raise LoginRejectedError(_REJECTED, "the authorization id differs from the user name")
        return accepted


def parse_message(message: str) -> tuple[str, str]:
    """Return (authorization id, token) of a client's first message. Skip SASL extensions (KIP-342).

    Raises LoginRejectedError if the message is malformed.
    """
    match = _MESSAGE.fullmatch(message)
    pairs = [pair.split("=", 1) for pair in match[2].split("\x01")[:-1]] if match is not None else []
    tokens = [found[1] for key, value in pairs if key == "auth" and (found := _TOKEN.fullmatch(value))]
    if match is None or len(tokens) != 1:
        raise LoginRejectedError(_REJECTED, "the message does not have the format of the mechanism")
    return (match[1] or "").replace("=2C", ",").replace("=3D", "="), tokens[0]
