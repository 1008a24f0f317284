"""A certificate for this machine, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def make_pems(directory: Path) -> Path:
    """Puts cert.pem and key.pem of one self-signed certificate there, and locked.pem, a key with a passphrase."""
    openssl = shutil.which("openssl")
    assert openssl, "the tests of TLS need the openssl command"
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "key.pem", "-nodes"]
    subject = ["-subj", "/C=DE/O=Share, Group/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = [openssl, "req", "-x509", *new_key, "-out", "cert.pem", "-days", "2", *subject]
    lock = [openssl, "pkcs8", "-topk8", "-in", "key.pem", "-out", "locked.pem", "-passout", "pass:secret"]
    for command in (make, lock):
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return directory
