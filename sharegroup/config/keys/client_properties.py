"""The Kafka client properties in the config key `kafka`, with Java's names, and their counterparts in kafka-python.

Spark reads with Kafka's Java consumer, to which every property is passed unchanged. All other clients (producers, admin
clients and offset polls of the job, the gateway, a ShareConsumer) use kafka-python, which has fewer properties with
other names and types. Only properties about connecting are translated. Properties that only Java has are allowed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sharegroup.config.nearest_name import nearest_hint

_INT_MAX = 2**31 - 1


class PythonProperty(NamedTuple):
    """A property of kafka-python.

    `parse` converts the text of Java's property. If the text is invalid, it raises a ValueError. The error does not
    contain the text, which may be a secret.
    """

    name: str
    parse: Callable[[str], Any] = str


def _whole(low: int, high: int = _INT_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*-?[0-9]+\s*", text) or not low <= int(text) <= high:
            raise ValueError(f"Not a whole number from {low} to {high}")
        return int(text)

    return parse


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"Not one of {', '.join(values)}")
        return text

    return parse


def _buffer_bytes(text: str) -> int | None:
    """Return a buffer size. Java's -1 (the operating system's default) becomes None, as kafka-python expects."""
    size = _whole(-1)(text)
    return None if size == -1 else size


def _checks_hostname(text: str) -> bool:
    """Parse ssl.endpoint.identification.algorithm, and return whether clients verify the host names of brokers.

    False if the text is empty, as in Java, or "none", as in librdkafka.
    """
    return _one_of("https", "HTTPS", "none", "")(text.strip()) in ("https", "HTTPS")


#: {Java's name: kafka-python's property}, for properties about connecting. The last three names are librdkafka's. They
#: take precedence over Java's names. kafka-python requires request.timeout.ms to be above the maximum wait of a fetch
#: (500 ms), and below the producer's delivery timeout (2 minutes) and the idle timeout of a connection.
PYTHON_PROPERTIES: Mapping[str, PythonProperty] = {
    "client.id": PythonProperty("client_id"),
    "client.dns.lookup": PythonProperty(
        "client_dns_lookup", _one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
    ),
    "request.timeout.ms": PythonProperty("request_timeout_ms", _whole(1_000, 119_000)),
    "connections.max.idle.ms": PythonProperty("connections_max_idle_ms", _whole(120_000)),
    "metadata.max.age.ms": PythonProperty("metadata_max_age_ms", _whole(0)),
    "retry.backoff.ms": PythonProperty("retry_backoff_ms", _whole(0)),
    "reconnect.backoff.ms": PythonProperty("reconnect_backoff_ms", _whole(0)),
    "reconnect.backoff.max.ms": PythonProperty("reconnect_backoff_max_ms", _whole(0)),
    "receive.buffer.bytes": PythonProperty("receive_buffer_bytes", _buffer_bytes),
    "send.buffer.bytes": PythonProperty("send_buffer_bytes", _buffer_bytes),
    "security.protocol": PythonProperty("security_protocol", _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "sasl.mechanism": PythonProperty(
        "sasl_mechanism", _one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "AWS_MSK_IAM")
    ),
    "sasl.kerberos.service.name": PythonProperty("sasl_kerberos_service_name"),
    "ssl.endpoint.identification.algorithm": PythonProperty("ssl_check_hostname", _checks_hostname),
    "ssl.truststore.location": PythonProperty("ssl_cafile"),
    "ssl.keystore.location": PythonProperty("ssl_certfile"),
    "ssl.key.password": PythonProperty("ssl_password"),
    "ssl.ca.location": PythonProperty("ssl_cafile"),
    "ssl.certificate.location": PythonProperty("ssl_certfile"),
    "ssl.key.location": PythonProperty("ssl_keyfile"),
}

#: Unknown names with these prefixes are rejected. They are probably misspelt, and the client could not log in.
_SECURITY = ("security.", "sasl.", "ssl.")
_ONLY_JAVA = frozenset(
    {
        "security.providers",
        "sasl.jaas.config",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_ONLY_JAVA_FAMILIES = ("sasl.login.", "sasl.oauthbearer.")

#: Properties that users may not set, because the job or Spark's reader sets them.
_SET_BY_JOB = frozenset(
    {"auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer"}
)
#: {prefix of the properties of a Java store: property that names a PEM file for kafka-python}. kafka-python reads no
#: other format. `_INLINE` is the same for properties with the certificates or the key themselves.
_STORES = {"ssl.truststore": "ssl.ca.location", "ssl.keystore": "ssl.certificate.location"}
_INLINE = {
    "ssl.truststore.certificates": "ssl.ca.location",
    "ssl.keystore.certificate.chain": "ssl.certificate.location",
    "ssl.keystore.key": "ssl.key.location",
}


def property_problems(properties: Mapping[str, str]) -> list[str]:
    """Return sentences about invalid or missing properties. They contain no values, which may be passwords."""
    problems = [problem for name, text in properties.items() if (problem := _problem(name, text))]
    for store, instead in _STORES.items():
        if not _is_pem(properties, store) and instead not in properties:
            problems.append(f"{store}.type must be PEM, or {instead} must be set; clients without Java read only PEM")
    problems += [
        f"{inline} is only read by Java clients; set {instead} to a PEM file as well"
        for inline, instead in _INLINE.items()
        if inline in properties and instead not in properties
    ]
    return problems


def is_read(name: str, properties: Mapping[str, str]) -> bool:
    """Return whether the property `name` is passed to kafka-python. `properties` are all properties of the client.

    The locations of key and trust stores are passed only if the type of the store is PEM or is not set.
    """
    store = name.removesuffix(".location")
    return name in PYTHON_PROPERTIES and (store not in _STORES or _is_pem(properties, store))


def _is_pem(properties: Mapping[str, str], store: str) -> bool:
    return properties.get(f"{store}.type", "PEM").upper() == "PEM"


def _problem(name: str, text: str) -> str | None:
    if name == "bootstrap.servers":
        return f"{name} is not allowed in the key kafka; set the key {name} of the section job"
    if name in _SET_BY_JOB:
        return f"{name} must not be set, because the job sets it"
    if name in PYTHON_PROPERTIES:
        try:
            PYTHON_PROPERTIES[name].parse(text)
        except ValueError as error:
            return f"{name}: {error}"
    known = _ONLY_JAVA | _INLINE.keys() | PYTHON_PROPERTIES.keys()
    if name.startswith(_SECURITY) and name not in known and not name.startswith(_ONLY_JAVA_FAMILIES):
        return f"Unknown property {name}{nearest_hint(name, known)}"
    return None
