"""The mechanisms that verify a password: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677). No I/O."""

from scramp import ScramException

from sharegroup.security.authentication.credentials import SCRAM_MECHANISMS, Credentials
from sharegroup.security.authentication.sasl_exchange import ExchangeStep, LoginRejectedError

PLAIN = "PLAIN"
_REJECTED = "the user is unknown or the password is wrong"
_MALFORMED = "the message does not have the format of the mechanism"


class PlainExchange:
    """A PLAIN login: one message with user and password. Verification takes milliseconds."""

    max_message_bytes = 4_096

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.claimed = ""

    def respond(self, message: str) -> ExchangeStep:
        """Verify the user and password in the client's only message.

        Raises LoginRejectedError if the message is malformed, or if the user or the password is wrong.
        """
        authorization_id, *rest = message.split("\0")
        if len(rest) != 2:
            raise LoginRejectedError(_REJECTED, _MALFORMED)
        self.claimed, password = rest
        if authorization_id not in ("", self.claimed):
            raise LoginRejectedError(_REJECTED, "the authorization id differs from the user name")
        if not self._credentials.get_credential(self.claimed).matches(password):
            raise LoginRejectedError(_REJECTED)
        return ExchangeStep(b"", self.claimed)


class ScramExchange:
    """A SCRAM login with two messages of the client.

    `server_nonce` is random text for this login (printable ASCII without commas).
    """

    max_message_bytes = 4_096

    def __init__(self, mechanism: str, credentials: Credentials, server_nonce: str) -> None:
        self._mechanism, self._credentials = mechanism, credentials
        self._scram = SCRAM_MECHANISMS[mechanism].make_server(self._credential, s_nonce=server_nonce)
        self._is_challenged = False
        self.claimed = ""

    def respond(self, message: str) -> ExchangeStep:
        """Handle the client's first message in the first call, and its final message in the second call.

        Raises LoginRejectedError if a message is malformed or the password is wrong.
        """
        try:
            if not self._is_challenged:
                self._scram.set_client_first(message)
                challenge: str = self._scram.get_server_first()
                self._is_challenged = True
                return ExchangeStep(challenge.encode())
            self._scram.set_client_final(message)
            proof: str = self._scram.get_server_final()
        except ScramException:  # its text may contain parts of the message
            raise LoginRejectedError(_REJECTED) from None
        return ExchangeStep(proof.encode(), self.claimed)

    def _credential(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.claimed = user
        return self._credentials.get_credential(user, self._mechanism).for_scramp
