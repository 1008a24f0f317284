"""The SASL mechanisms and signature algorithms that keys of the gateway may list."""

from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
#: All supported mechanisms, in the order in which SaslHandshake responses list them.
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
#: Signature algorithms with a private key. `none` is not supported, because it proves nothing. The HS algorithms are
#: not supported, because anyone who has the public key could forge a signature (RFC 8725, section 2.1).
ALGORITHMS = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    "EdDSA",
)


def _listed(value: object) -> tuple[str, ...]:
    """Parse Kafka's LIST: names separated by commas, or a YAML list."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError("Not a list of names")
    return tuple(name.strip() for name in names if name.strip())


def _each_of(known: tuple[str, ...]) -> Callable[[object], tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        names = _listed(value)
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{unknown[0]} is not one of {', '.join(known)}")
        return names

    return parse


Mechanisms = Annotated[tuple[str, ...], BeforeValidator(_each_of(MECHANISMS))]
Algorithms = Annotated[tuple[str, ...], BeforeValidator(_each_of(ALGORITHMS))]
Audiences = Annotated[tuple[str, ...], BeforeValidator(_listed)]
