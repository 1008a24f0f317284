"""kafka-python's settings from the configuration's `kafka` properties, which have Java's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_JAAS_FIELD = re.compile(r"""(username|password)\s*=\s*["']([^"']*)["']""")
#: Java's name -> kafka-python's, where replacing the dots is not enough.
_RENAMED = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.ca.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


def python_properties(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's settings for Java's properties; `sasl.jaas.config` gives user name and password."""
    settings: dict[str, Any] = {"bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")]}
    for name, value in kafka.items():
        if name == "sasl.jaas.config":
            fields = dict(_JAAS_FIELD.findall(value))
            settings |= {f"sasl_plain_{field}": fields[field] for field in fields}
        else:
            settings[_RENAMED.get(name, name.replace(".", "_"))] = value
    return settings
