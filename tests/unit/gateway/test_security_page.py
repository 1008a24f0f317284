"""docs/security.md agrees with the code: its examples can be loaded, and its tables list the rights that are needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sharegroup.config import GatewayConfig, parse_config
from sharegroup.gateway.clients.quotas import load_quotas
from sharegroup.gateway.passthrough.rights import Need
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.security import authorization
from sharegroup.security.acl import Operation, Resource, load_acl
from sharegroup.security.authentication.credentials import hash_password, load_credentials
from tests.compatibility_page import apis

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")


def block(heading: str) -> str:
    """Return the first YAML block below a heading, or of the whole page for an empty heading."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1] if heading else PAGE
    found = re.search(r"^```yaml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_documented_keys_exist_in_the_configuration() -> None:
    given = yaml.safe_load(block("")) | yaml.safe_load(block("Connections to the brokers"))
    config = parse_config(given, "docs/security.md")
    assert config.gateway.acls == "/etc/sharegroup/acls.yaml"
    assert config.job.kafka["security.protocol"] == "SASL_SSL"
    named = set(re.findall(r"`(gateway\.[a-z.]+)", PAGE))
    assert len(named) >= 6
    assert named <= GatewayConfig.config_keys().keys()


def test_line_of_the_users_file_has_the_documented_form(tmp_path: Path) -> None:
    """The documented line has words in angle brackets instead of Base64."""
    (user, shown) = yaml.safe_load(block("Users")).popitem()
    form = re.sub(r"<[a-z ]+>", "[A-Za-z0-9+/=]+", shown.replace("$", r"\$"))
    line = hash_password(user, "secret")
    assert re.fullmatch(form, yaml.safe_load(line)[user])
    path = tmp_path / "users.yaml"
    path.write_text(line, encoding="utf-8")
    assert load_credentials(str(path), b"decoy").get_credential(user).matches("secret")


@pytest.mark.parametrize(
    ("principal", "operation", "resource", "name", "is_allowed"),
    [
        ("User:alice", Operation.READ, Resource.GROUP, "billing", True),
        ("User:alice", Operation.READ, Resource.TOPIC, "orders", True),
        ("User:alice", Operation.READ, Resource.TOPIC, "order-cards", False),
        ("User:shop", Operation.WRITE, Resource.TOPIC, "orders", True),
        ("User:shop", Operation.WRITE, Resource.TRANSACTIONAL_ID, "shop-1", True),
        ("User:shop", Operation.READ, Resource.TOPIC, "orders", False),
        ("User:alice", Operation.DELETE, Resource.GROUP, "billing", False),
        ("User:alice", Operation.ALL, Resource.CLUSTER, "kafka-cluster", False),
        ("User:bob", Operation.DESCRIBE, Resource.TOPIC, "orders", False),
        ("User:admin", Operation.ALL, Resource.CLUSTER, "kafka-cluster", True),
    ],
)
def test_example_list_allows_what_the_page_states(
    tmp_path: Path, principal: str, operation: Operation, resource: Resource, name: str, is_allowed: bool
) -> None:
    path = tmp_path / "acls.yaml"
    path.write_text(block("The access control list"), encoding="utf-8")
    assert load_acl(str(path)).allows(principal, "10.0.0.1", operation, resource, name) is is_allowed


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without the header row."""
    rows = [line for line in PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0].splitlines() if line[:2] == "| "]
    return [row.removeprefix("| ").removesuffix(" |").split(" | ") for row in rows[2:]]


def test_table_has_each_request_of_the_code() -> None:
    """The table is compared with the list in the docstring of the module."""
    listed = re.findall(r"^ {4}((?:[A-Z]\w+(?:, )?)+)  +\S", authorization.__doc__ or "", re.MULTILINE)
    rows = [row[0] for row in table("Permissions for requests to the gateway")]
    assert sorted(name for row in rows for name in row.split(", ")) == sorted(
        name for names in listed for name in names.split(", ")
    )


def test_documented_quotas_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "quotas.yaml"
    path.write_text(PAGE.split("\n### Quotas\n", 1)[1].split("```yaml\n", 1)[1].split("```", 1)[0], encoding="utf-8")
    entries = load_quotas(str(path))
    assert [(entry.user, entry.client_id) for entry in entries] == [
        ("alice", "billing"),
        ("alice", None),
        ("<default>", None),
        (None, "<default>"),
    ]


def test_documented_defaults_are_those_of_the_configuration() -> None:
    shown = dict(re.findall(r"`(gateway\.[a-z.]+)` \| (\S+(?: MiB| KiB| min| ms| s)?)", PAGE))
    units = {"MiB": 1_048_576, "KiB": 1_024, "min": 60_000, "s": 1_000, "ms": 1}
    keys = GatewayConfig.config_keys()
    assert len(shown) >= 10
    for name, text in shown.items():
        number, _, unit = text.strip(":").partition(" ")
        value = int(number) * units.get(unit, 1) if number.isdigit() else ""
        assert value == keys[name].default, name


def need_text(need: Need) -> str:
    operation = "".join(part.capitalize() for part in need.operation.name.split("_"))
    on_cluster = " or the cluster" if need.or_on_cluster is not None else ""
    return f"`{operation}` on the {need.resource.value.replace('_', ' ')}{on_cluster}"


def test_table_of_forwarded_requests_agrees_with_the_rules() -> None:
    assert table("Permissions for forwarded requests") == [
        [rule.name, "; ".join(map(need_text, rule.needs)) or "nothing", rule.error_place] for rule in RULES.values()
    ]
    assert all(need.or_on_cluster in (None, need.operation) for rule in RULES.values() for need in rule.needs)


def test_every_client_request_is_in_one_of_the_tables() -> None:
    """Except the requests before a login, for which Kafka requires no right either."""
    own = {name for row in table("Permissions for requests to the gateway") for name in row[0].split(", ")}
    known = own | {rule.name for rule in RULES.values()} | {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
    assert known == {api.name for api in apis() if api.gateway is not None}
