"""Names of clients as keys of what is remembered of them, at a length that memory allows."""

from __future__ import annotations

import hashlib

#: A name may have 32 KB. Of 100,000 members of such names, the names alone would take gigabytes.
LONGEST = 256


def short(name: str) -> str:
    """The name, or the digest of a long one. No client can send a digest as a name: UTF-8 has no lone surrogates."""
    if len(name) <= LONGEST:
        return name
    return "\udc80" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
