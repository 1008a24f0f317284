"""A login that the brokers judge: its one message goes on to them as it came. PURE but for `log_in`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jwt

from sharegroup.kafka_clients.connections.broker_login import PassedOnLogin
from sharegroup.security.authentication.oauth_bearer import MAX_MESSAGE_BYTES, OAUTHBEARER, parse_message
from sharegroup.security.authentication.password_exchanges import PLAIN
from sharegroup.security.authentication.sasl_exchange import Answer, LoginRefusedError

_REFUSED = "the brokers refuse the login"
_MALFORMED = "the message is not one of the mechanism"


class PassedOnExchange:
    """One message. `user_of` says whom it names, `log_in` logs in at the brokers and says until when that counts (ms
    since the epoch, None: for good). Both raise LoginRefusedError."""

    max_message_bytes = MAX_MESSAGE_BYTES

    def __init__(
        self, mechanism: str, user_of: Callable[[str], str], log_in: Callable[[PassedOnLogin], int | None]
    ) -> None:
        self._mechanism, self._user_of, self._log_in = mechanism, user_of, log_in
        self.claimed = ""

    def respond(self, message: str) -> Answer:
        """The only message. Raises LoginRefusedError."""
        self.claimed = self._user_of(message)
        return Answer(b"", self.claimed, self._log_in(PassedOnLogin(self._mechanism, message.encode())))


def user_of_password(message: str) -> str:
    """PLAIN's user. Who would act in another's name is refused, as brokers do. Raises LoginRefusedError."""
    authorization_id, *rest = message.split("\0")
    if len(rest) != 2 or not rest[0]:
        raise LoginRefusedError(_REFUSED, _MALFORMED)
    if authorization_id not in ("", rest[0]):
        raise LoginRefusedError(_REFUSED, "it would act in another user's name")
    return rest[0]


def user_of_token(claim: str, message: str) -> str:
    """Whom a token names by its `claim`, which the brokers have to check. Raises LoginRefusedError."""
    _, token = parse_message(message)
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError):
        raise LoginRefusedError(_REFUSED, "the token is no JWT") from None
    user = claims.get(claim)
    if not isinstance(user, str) or not user:
        raise LoginRefusedError(_REFUSED, f"the token has no {claim}")
    return user


#: {mechanism: (claim, message) to whom the message names}
PASSED_ON: Mapping[str, Callable[[str, str], str]] = {
    PLAIN: lambda _, message: user_of_password(message),
    OAUTHBEARER: user_of_token,
}
