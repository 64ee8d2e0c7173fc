"""The Helm chart: what it renders of six shapes of values, by the real schemas and by the gateway's own settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trustme
import yaml

from gateway.config.file import load
from gateway.config.settings import Settings
from gateway.runtime.process import CLOSE_S
from tests.support.deploy.chart import (
    DEFINITIONS,
    GOLDEN,
    KUBERNETES,
    ROOT,
    VALIDATOR,
    objects,
    rendered,
    shapes,
    template,
    tool,
)

pytestmark = pytest.mark.skipif(tool("helm") is None, reason="helm is not there: make deploy-tools")
TARGET_CA = "/etc/lockgate-secrets/target/ca.crt"
VALIDATE = ROOT / "tests" / "support" / "deploy" / "validate.py"


def refusal(*args: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template(args)
    return str(refused.value.stderr)


def settings_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """As a pod reads them."""
    for name, value in (("POD_NAME", "lockgate-0"), ("POD_IP", "10.0.0.7"), ("TARGET_PASSWORD", "secret-1")):
        monkeypatch.setenv(name, value)
    (config,) = (one for one in objects(text, "ConfigMap") if "gateway.yaml" in one["data"])
    file = tmp_path / "gateway.yaml"
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")  # it is read at once
    file.write_text(config["data"]["gateway.yaml"].replace(TARGET_CA, str(tmp_path / "ca.crt")), encoding="utf-8")
    return load(file)


def test_there_are_six_shapes() -> None:
    assert shapes() == ["minimal", "ports", "sasl", "scaled", "sni", "strimzi"]


@pytest.mark.parametrize("shape", shapes())
def test_it_renders_what_the_golden_file_has(shape: str) -> None:
    golden = (GOLDEN / f"{shape}.yaml").read_text(encoding="utf-8")
    assert rendered(shape) == golden, "python -m tests.support.deploy.chart"


@pytest.mark.skipif(not VALIDATOR.exists(), reason="the schemas are not there: make deploy-tools")
@pytest.mark.parametrize("shape", shapes())
def test_its_objects_are_what_the_api_server_takes(shape: str) -> None:
    done = subprocess.run(
        [str(VALIDATOR), str(VALIDATE), KUBERNETES, str(DEFINITIONS)],
        input=rendered(shape),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shape", shapes())
def test_the_gateway_reads_its_settings(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(rendered(shape), tmp_path, monkeypatch)
    assert settings.fleet.name == "lockgate-0.kafka"
    assert settings.fleet.peer_host == "10.0.0.7"
    assert settings.listener.advertised == "lockgate-internal.kafka.svc.cluster.local"


@pytest.mark.parametrize("shape", shapes())
def test_no_secret_is_in_an_object(shape: str) -> None:
    text = rendered(shape)
    assert not objects(text, "Secret")
    (config,) = (one for one in objects(text, "ConfigMap") if "gateway.yaml" in one["data"])
    target = yaml.safe_load(config["data"]["gateway.yaml"])["target"]
    assert target.get("sasl.password", "${TARGET_PASSWORD}") == "${TARGET_PASSWORD}"


@pytest.mark.parametrize("shape", shapes())
def test_what_settings_name_is_mounted(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered(shape)
    (pods,) = objects(text, "StatefulSet")
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    settings = settings_of(text, tmp_path, monkeypatch)
    files = [
        file for each in settings.endpoints().values() if each.tls for file in (each.tls.certificate, each.tls.key)
    ]
    files += [each.tls.client_ca for each in settings.endpoints().values() if each.tls and each.tls.client_ca]
    files += [Path(TARGET_CA)] if TARGET_CA in text else []
    files += [one.token_file for one in settings.api.principals if one.token_file]
    files += [settings.api.tls.key] if settings.api.tls else []
    assert {str(file.parent) for file in files} <= mounts


@pytest.mark.parametrize("shape", shapes())
def test_a_pod_has_no_more_than_it_needs(shape: str) -> None:
    (pods,) = objects(rendered(shape), "StatefulSet")
    pod = pods["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    modes = [one.get("secret", one.get("projected", {})).get("defaultMode", 0o440) for one in pod["volumes"]]
    assert set(modes) == {0o440}


def test_probes_and_prometheus_come_by_the_management_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered("scaled")
    settings = settings_of(text, tmp_path, monkeypatch)
    (container,) = objects(text, "StatefulSet")[0]["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert (settings.management.host, settings.management.port) == ("0.0.0.0", ports["management"])
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {one["port"] for one in asked.values()} == {"management"}
    assert [one["path"] for one in asked.values()] == ["/health", "/health", "/ready"]
    (endpoint,) = objects(text, "ServiceMonitor")[0]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("management", "/metrics")


def test_the_end_of_a_pod_leaves_time_for_the_promote_and_for_the_gateway() -> None:
    (pods,) = objects(rendered("minimal"), "StatefulSet")
    assert pods["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 60 + CLOSE_S


def test_every_broker_port_is_a_port_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered("ports")
    settings = settings_of(text, tmp_path, monkeypatch)
    ports = {
        one["metadata"]["name"]: [port["port"] for port in one["spec"]["ports"]] for one in objects(text, "Service")
    }
    external = settings.listeners["external"]
    assert ports["lockgate-external"] == [external.bootstrap_port, *range(external.base_port, external.base_port + 6)]
    assert ports["lockgate-internal"] == [9292, *range(9293, 9299)]


def test_by_sni_one_port_serves_every_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered("sni")
    external = settings_of(text, tmp_path, monkeypatch).listeners["external"]
    assert external.names is not None
    assert external.names.host_of(7) == "broker-7.kafka.example.com"
    services = {one["metadata"]["name"]: one["spec"]["ports"] for one in objects(text, "Service")}
    assert services["lockgate-external"] == [{"name": "bootstrap", "port": 443, "targetPort": 9392}]
    (route,) = objects(text, "TLSRoute")
    assert route["spec"]["hostnames"] == ["bootstrap.kafka.example.com", "*.kafka.example.com"]
    assert route["spec"]["rules"] == [{"backendRefs": [{"name": "lockgate-external", "port": 443}]}]
    certificates = {one["metadata"]["name"]: one["spec"]["dnsNames"] for one in objects(text, "Certificate")}
    assert certificates["lockgate-external-tls"] == route["spec"]["hostnames"]


def test_inside_the_cluster_brokers_hosts_are_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered("sni")
    names = settings_of(text, tmp_path, monkeypatch).listener.names
    assert names is not None
    services = {f"{one['metadata']['name']}.kafka.svc.cluster.local" for one in objects(text, "Service")}
    hosts = [names.bootstrap, *(names.host_of(node) for node in (0, 1, 2))]
    assert set(hosts) <= services
    certificates = {one["metadata"]["name"]: one["spec"]["dnsNames"] for one in objects(text, "Certificate")}
    assert certificates["lockgate-internal-tls"] == hosts


def test_replicas_are_left_to_the_autoscaler() -> None:
    text = rendered("scaled")
    assert "replicas" not in objects(text, "StatefulSet")[0]["spec"]
    (scaler,) = objects(text, "HorizontalPodAutoscaler")
    (policy,) = scaler["spec"]["behavior"]["scaleDown"]["policies"]
    grace = objects(text, "StatefulSet")[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert (policy["value"], policy["periodSeconds"] >= grace) == (1, True)


def test_strimzi_is_found_by_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(rendered("strimzi"), tmp_path, monkeypatch)
    assert settings.target["bootstrap.servers"] == "green-kafka-bootstrap.kafka.svc.cluster.local:9093"
    assert settings.target["security.protocol"] == "SASL_SSL"
    assert settings.target["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings.target["sasl.username"] == "lockgate"


def test_settings_of_the_file_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(rendered("sasl"), tmp_path, monkeypatch)
    assert settings.promote.pause_timeout_s == 3
    assert settings.promote.grace_ms == 30


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "target.bootstrapServers: name the target cluster"),
        (("--set", "target.bootstrapServers=a:1,strimzi.kafkaRef.name=b"), "give one of them"),
        (("--set", "target.bootstrapServers=a:1,replica=3"), "replica"),
        (("--set", "target.bootstrapServers=a:1,listeners.internal.brokerz=3"), "brokerz"),
        (("--set", "target.bootstrapServers=a:1,api.expose=true"), "api."),
        (("--set", "target.bootstrapServers=a:1,listeners.internal.tlsRoute.enabled=true"), "takes addressing sni"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(args: tuple[str, ...], words: str) -> None:
    assert words in refusal(*args)


def test_the_sidecar_of_the_docs_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "shop-1")
    monkeypatch.setenv("POD_IP", "10.0.0.7")
    page = (ROOT / "docs" / "operate" / "kubernetes.md").read_text(encoding="utf-8")
    (block,) = (each for each in page.split("```yaml\n") if each.startswith("role: sidecar"))
    (tmp_path / "gateway.yaml").write_text(block.partition("```")[0], encoding="utf-8")
    assert load(tmp_path / "gateway.yaml").role == "sidecar"
