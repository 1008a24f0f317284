"""Converts the configuration's `kafka` properties, which have the Java client's names, to kafka-python's settings."""

import re
from collections.abc import Mapping
from typing import Any

from sharegroup.config.keys.client_properties import PYTHON_PROPERTIES, is_read, property_problems
from sharegroup.errors import InvalidConfigError

#: Matches an option name=value in `sasl.jaas.config`. The value is in single or double quotes, or a bare word.
_JAAS_OPTION = re.compile(r"""([\w$.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([\w$.-]+))""")
_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_CONTROL_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


#: Keyword arguments of kafka-python's clients. Their names and types are only listed in kafka-python's documentation.
ClientSettings = Mapping[str, Any]


def python_properties(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's settings for `kafka`, which are properties of the Java client.

    Properties that only the Java client has are left out. User name and password are read from `sasl.jaas.config`.
    Raises InvalidConfigError if a property is invalid.
    """
    if problems := property_problems(kafka):
        raise InvalidConfigError("Kafka client properties", problems)
    settings: dict[str, Any] = {"bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")]}
    for name, known in PYTHON_PROPERTIES.items():
        if name in kafka and is_read(name, kafka):
            settings[known.name] = known.parse(kafka[name])
    options = _jaas_options(kafka.get("sasl.jaas.config", ""))
    return settings | {f"sasl_plain_{name}": options[name] for name in ("username", "password") if name in options}


def _jaas_options(config: str) -> dict[str, str]:
    """Parse the options of `sasl.jaas.config` as Java does with its StreamTokenizer."""
    found = _JAAS_OPTION.findall(config)
    return {name: _JAAS_ESCAPE.sub(_unescaped, double or single or word) for name, double, single, word in found}


def _unescaped(escape: re.Match[str]) -> str:
    character = escape[1]
    return chr(int(character, 8)) if character[0] in "01234567" else _CONTROL_CHARACTERS.get(character, character)
