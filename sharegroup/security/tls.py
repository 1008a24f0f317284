"""TLS of the gateway's listener: its certificate and key, and the verification of client certificates."""

import ssl
from typing import cast

from sharegroup.errors import InvalidConfigError


def listener_context(certificate: str, key: str, client_ca: str) -> ssl.SSLContext | None:
    """Return the listener's TLS context, for TLS 1.2 or newer. Return None if `certificate` is empty.

    All parameters are paths of PEM files. `certificate` is a certificate chain, and `key` is its private key, without a
    passphrase. If `key` is empty, the private key is in the file of the chain. If `client_ca` is not empty, clients
    need a certificate that is signed by one of the authorities in this file. Raises InvalidConfigError if a file is
    invalid, or if `key` or `client_ca` is given without `certificate`.
    """
    if not certificate:
        if key or client_ca:
            raise InvalidConfigError(
                "gateway", ["gateway.ssl.certificate.location must be set, because other gateway.ssl keys are set"]
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, password=_no_passphrase)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidConfigError("gateway", [f"gateway.ssl.certificate.location: {certificate}: {error}"]) from error
    if client_ca:
        try:
            context.load_verify_locations(client_ca)
        except OSError as error:
            raise InvalidConfigError("gateway", [f"gateway.ssl.client.ca.location: {client_ca}: {error}"]) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def certificate_principal(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> str | None:
    """Return Kafka's principal of a client certificate: `User:CN=...,O=...`, most specific part first.

    Returns None without a client certificate. Call it after the TLS handshake.
    """
    certificate = ssl_object.getpeercert() if ssl_object is not None else None
    if not certificate:
        return None
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    parts = [f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for rdn in subject for name, value in rdn]
    return "User:" + ",".join(reversed(parts))


#: The attribute names of RFC 2253, which Java uses.
_SHORT_NAMES = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
}


def _escaped(value: str) -> str:
    """Escape a value so that it cannot look like another part of the name (RFC 2253)."""
    return "".join("\\" + character if character in ',+"\\<>;=' else character for character in value)


def _no_passphrase() -> str:
    """Raise ValueError. Without this function, OpenSSL would prompt for a passphrase on the terminal."""
    raise ValueError("the private key must not have a passphrase")
