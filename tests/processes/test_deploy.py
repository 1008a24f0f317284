"""conf/deploy: each file is what the tool that reads it takes, and a gateway starts with its configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from sharegroup.config import Config, load_config, parse_config
from sharegroup.config.keys.advertised_listeners import STANDBY, AdvertisedListeners
from sharegroup.security.acl import load_acl

DEPLOY = Path(__file__).parents[2] / "conf" / "deploy"
SCRIPTS = Path(sys.executable).parent
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
BROKERS = (0, 1, 2)


def manifest(kind: str, name: str) -> Any:
    """One object of kubernetes.yaml."""
    (found,) = (each for each in MANIFESTS if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def kubernetes_config() -> Config:
    text = manifest("ConfigMap", "share-group")["data"]["share_group.yaml"]
    return parse_config(yaml.safe_load(text), "kubernetes.yaml")


def said_by(tool: str, *arguments: str) -> str:
    """What a linter says; AssertionError if that is a complaint."""
    done = subprocess.run([SCRIPTS / tool, *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image_is_made_as_hadolint_likes_it() -> None:
    assert said_by("hadolint", str(DEPLOY / "Dockerfile")) == ""


def test_compose_reads_its_file() -> None:
    said_by("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))


@pytest.mark.parametrize("index", range(len(MANIFESTS)), ids=lambda index: MANIFESTS[index]["kind"])
def test_kubernetes_takes_each_manifest(index: int) -> None:
    kubernetes_validate.validate(MANIFESTS[index], kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("of", ["compose", "kubernetes"])
def test_the_gateways_are_open_to_others_and_ask_who_they_are_and_what_they_may(of: str) -> None:
    gateway = (load_config(DEPLOY / "share_group.yaml") if of == "compose" else kubernetes_config()).gateway
    assert gateway.listener_host == "0.0.0.0"
    assert gateway.sasl_users
    assert gateway.acls
    load_acl(str(DEPLOY / "acls.yaml"))


def test_containers_are_told_by_names_that_lead_to_them() -> None:
    advertised = AdvertisedListeners.parse(load_config(DEPLOY / "share_group.yaml").gateway.advertised_listeners)
    for name in ("gateway-1", "gateway-2"):
        service = SERVICES[name]
        base = int(service["command"][-1])
        assert advertised.address(1, base + 1, service["hostname"]) == (name, base + 1)
        assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in (base - 1, base, base + 1)]


def test_pods_are_told_by_names_that_lead_to_them_and_have_a_port_for_each_broker() -> None:
    gateway, pods = kubernetes_config().gateway, manifest("StatefulSet", "gateway")
    advertised = AdvertisedListeners.parse(gateway.advertised_listeners)
    host = "gateway-0.gateways.sharegroup.svc"
    assert pods["spec"]["serviceName"] == "gateways"
    base = gateway.listener_port
    assert advertised.address(2, base + 2, "gateway-0") == (host, base + 2)
    assert advertised.address(STANDBY, base - 1, "gateway-0") == (host, base - 1)
    wanted = {"standby": base - 1} | {f"broker-{number}": base + number for number in BROKERS}
    by_name = manifest("Service", "gateways")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in by_name} == wanted
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == wanted | {
        "metrics": gateway.metrics_port
    }
    assert manifest("Service", "gateway")["spec"]["ports"][0]["targetPort"] in wanted


def test_there_is_time_to_drain() -> None:
    drain_s = Config().gateway.drain_timeout_ms / 1000
    pods = manifest("StatefulSet", "gateway")["spec"]["template"]["spec"]
    assert drain_s < pods["terminationGracePeriodSeconds"]
    assert drain_s < int(SERVICES["gateway-1"]["stop_grace_period"].removesuffix("s"))
