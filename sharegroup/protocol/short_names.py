"""Bounded keys for names that clients choose."""

import hashlib

#: Longest name that is used as it is. A name may have 32 KB; 100,000 members with such names would take gigabytes.
LONGEST = 256


def shorten_name(name: str) -> str:
    """Return the name, or a digest of a long one. No client can send a digest: UTF-8 has no lone surrogates."""
    if len(name) <= LONGEST:
        return name
    return "\udc80" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
