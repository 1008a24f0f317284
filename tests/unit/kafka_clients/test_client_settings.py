"""kafka-python's settings for Java's properties. The expected passwords are the results of Kafka's JaasConfig."""

from __future__ import annotations

import pytest

from sharegroup.kafka_clients.client_settings import python_properties


def login(options: str) -> tuple[str | None, str | None]:
    """Return (user name, password)."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = python_properties("a:1", {"sasl.jaas.config": f"{module} required {options};"})
    return settings.get("sasl_plain_username"), settings.get("sasl_plain_password")


@pytest.mark.parametrize(
    ("options", "password"),
    [
        ("""username="alice" password="secret" """, "secret"),
        ("""username="alice" password="it's" """, "it's"),
        ("""username='alice' password='say "hi"' """, 'say "hi"'),
        (r"""username="alice" password="a\"b" """, 'a"b'),
        (r"""username="alice" password='a\'b' """, "a'b"),
        (r"""username="alice" password="a\\" """, "a\\"),
        (r"""username="alice" password="\101\7\477\400\t\q|\x" """, "A\a'7 0\tq|x"),
        ("""username="alice" password="" """, ""),
        ("""username="alice" password="x;y" """, "x;y"),
        ("""username="alice" password="café ☃" """, "café ☃"),
        ("""username=alice password=se-c_r$et.1é""", "se-c_r$et.1é"),
        ("""username = "alice"\n  password= "p" """, "p"),
        ("""username="alice" password="p" password="q" """, "q"),
    ],
)
def test_password_is_parsed_as_in_java(options: str, password: str) -> None:
    assert login(options) == ("alice", password)


def test_login_inside_another_value_is_ignored() -> None:
    assert login(r"""truststorepassword="x" serviceName="username=\"eve\"" username="a" """) == ("a", None)
    assert login(r"""password="username='bob'" """) == (None, "username='bob'")
