"""Shortens names that clients choose, so that they can be stored as keys."""

import hashlib

#: Maximum length of a name that is used unchanged, in characters. Clients may send names of 32 KB, and 100,000 of them
#: would take gigabytes of memory.
LONGEST = 256


def shorten_name(name: str) -> str:
    """Return the name, or a digest if it has more than `LONGEST` characters.

    The digest begins with a lone surrogate, which UTF-8 cannot encode. It is therefore never equal to a name that a
    client sends.
    """
    if len(name) <= LONGEST:
        return name
    return "\udc80" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
