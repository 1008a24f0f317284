"""SASL exchanges that the brokers verify: the gateway logs in at the brokers with the client's credentials.

Only mechanisms whose client sends a single message are supported. Only the function `log_in`, which is passed to
`ForwardedExchange`, does I/O.
"""

from collections.abc import Callable, Mapping

import jwt

from sharegroup.kafka_clients.connections.broker_login import ForwardedLogin
from sharegroup.security.authentication.oauth_bearer import MAX_MESSAGE_BYTES, OAUTHBEARER, parse_message
from sharegroup.security.authentication.password_exchanges import PLAIN
from sharegroup.security.authentication.sasl_exchange import ExchangeStep, LoginRejectedError

_REJECTED = "the brokers rejected the login"
_MALFORMED = "the message does not have the format of the mechanism"


class ForwardedExchange:
    """A SASL exchange with a single client message, which is verified by a login at the brokers.

    `user_of` extracts the user name from the message. `log_in` logs in at the brokers. It returns the end of the
    session in ms since the epoch, or None if the session never expires. Both functions raise LoginRejectedError if they
    reject the message.
    """

    max_message_bytes = MAX_MESSAGE_BYTES

    def __init__(
        self, mechanism: str, user_of: Callable[[str], str], log_in: Callable[[ForwardedLogin], int | None]
    ) -> None:
        self._mechanism, self._user_of, self._log_in = mechanism, user_of, log_in
        self.claimed = ""

    def respond(self, message: str) -> ExchangeStep:
        """Log in at the brokers with the client's message, and return the user and the end of the session.

        Raises LoginRejectedError if the login is rejected.
        """
        self.claimed = self._user_of(message)
        return ExchangeStep(b"", self.claimed, self._log_in(ForwardedLogin(self._mechanism, message.encode())))


def user_of_password(message: str) -> str:
    """Return the user name in a PLAIN message.

    Raises LoginRejectedError if the message is malformed, or if the authorization id is neither empty nor the user name
    (as in Kafka).
    """
    authorization_id, *rest = message.split("\0")
    if len(rest) != 2 or not rest[0]:
        raise LoginRejectedError(_REJECTED, _MALFORMED)
    if authorization_id not in ("", rest[0]):
        raise LoginRejectedError(_REJECTED, "the authorization id differs from the user name")
    return rest[0]


def user_of_token(claim: str, message: str) -> str:
    """Return the user name in the token of an OAUTHBEARER message: the value of the claim with the name `claim`.

    This function does not verify the token, because the brokers do. Raises LoginRejectedError if the message is
    malformed, or if the token is not a JWT or lacks the claim.
    """
    _, token = parse_message(message)
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError):
        raise LoginRejectedError(_REJECTED, "the token is not a JWT") from None
    user = claims.get(claim)
    if not isinstance(user, str) or not user:
        raise LoginRejectedError(_REJECTED, f"the token has no claim {claim}")
    return user


#: {SASL mechanism: function that returns the user name in a message}. The function's arguments are the name of the
#: token claim that contains the user name (not used by PLAIN), and the message.
FORWARDED_MECHANISMS: Mapping[str, Callable[[str, str], str]] = {
    PLAIN: lambda _, message: user_of_password(message),
    OAUTHBEARER: user_of_token,
}
