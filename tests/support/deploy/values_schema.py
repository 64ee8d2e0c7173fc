"""The chart's values.schema.json, written from its values.yaml: `python -m tests.support.deploy.values_schema`.

A value's comment is its description, its default gives its type, and what else it may be stands here. An object with
keys has these alone; one without (`{}`) has any, but for those of `SHAPES`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm" / "lockgate"
SCHEMA: Final = CHART / "values.schema.json"

_PORT: Final = {"minimum": 1, "maximum": 65_535}
_SECRET: Final = {"name": {"type": "string"}, "key": {"type": "string"}}
_SASL: Final = ("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": sorted(properties), "properties": properties}


def _each(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _text(*names: str) -> dict[str, Any]:
    return {name: {"type": "string", "minLength": 1} for name in names}


SHAPES: Final[dict[str, dict[str, Any]]] = {
    "replicas": {"minimum": 1},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullSecrets": _each({"type": "string"}),
    "target.securityProtocol": {"enum": ["", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
    "target.saslMechanism": {"enum": list(_SASL)},
    "strimzi.kafkaRef.port": _PORT,
    "listeners": {
        "required": ["internal"],
        "propertyNames": {"pattern": "^[a-z][a-z0-9-]{0,14}$"},
        "additionalProperties": {"$ref": "#/properties/listenerDefaults"},
        "properties": {"internal": {"$ref": "#/properties/listenerDefaults"}},
    },
    "listenerDefaults.addressing": {"enum": ["port", "sni", "both"]},
    "listenerDefaults.advertisedHostPattern": {"pattern": r"^([^.]*\$\(nodeId\)[^.]*\..+)?$"},
    "listenerDefaults.advertisedPort": {"minimum": 0, "maximum": 65_535},
    "listenerDefaults.advertisedBasePort": {"minimum": 0, "maximum": 65_535},
    "listenerDefaults.service.perBroker": _each({"type": "integer", "minimum": 0}),
    "listenerDefaults.tlsRoute.parentRefs": _each({"type": "object", "required": ["name"]}),
    "listenerDefaults.tlsRoute.hostnames": _each({"type": "string"}),
    "listenerDefaults.bootstrapPort": _PORT,
    "listenerDefaults.basePort": _PORT,
    "listenerDefaults.brokers": {"minimum": 1},
    "listenerDefaults.protocol": {"enum": ["", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
    "listenerDefaults.identity": {"enum": ["relay", "token"]},
    "listenerDefaults.proxyProtocolFrom": _each({"type": "string"}),
    "listenerDefaults.tls.clientAuth": {"enum": ["none", "requested", "required"]},
    "listenerDefaults.tls.certManager.issuerRef.kind": {"enum": ["Issuer", "ClusterIssuer"]},
    "listenerDefaults.tls.certManager.dnsNames": _each({"type": "string"}),
    "listenerDefaults.service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "listenerDefaults.service.loadBalancerSourceRanges": _each({"type": "string"}),
    "listenerDefaults.service.externalTrafficPolicy": {"enum": ["Cluster", "Local"]},
    "management.port": _PORT,
    "api.port": _PORT,
    "api.allowedHosts": _each({"type": "string"}),
    "api.principals": _each(
        _closed(
            _text("name") | {"role": {"enum": ["viewer", "operator", "admin"]}, "tokenSecret": _closed(dict(_SECRET))}
        )
    ),
    "links.secrets": _each(_closed(_text("link", "secretName"))),
    "links.cas": _each(_closed(_text("name", "secretName", "key"))),
    "links.hosts": _each({"type": "string"}),
    "workers": {"minimum": 1, "maximum": 64},
    "peerPort": _PORT,
    "log.level": {"enum": ["debug", "info", "warning", "error"]},
    "topologySpread.whenUnsatisfiable": {"enum": ["ScheduleAnyway", "DoNotSchedule"]},
    "topologySpread.maxSkew": {"minimum": 1},
    "podDisruptionBudget.maxUnavailable": {"type": ["integer", "string"]},
    "autoscaling.minReplicas": {"minimum": 1},
    "autoscaling.maxReplicas": {"minimum": 1},
    "autoscaling.targetCPU": {"minimum": 1},
    "shutdown.waitForPromoteSeconds": {"minimum": 0},
    "shutdown.gracePeriodSeconds": {"minimum": 30},
}
"""What a value may be, beside its default's type."""

OPEN: Final = ("resources", "monitoring.boards.labels")


def schema() -> dict[str, Any]:
    """All of it."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    made = _of(yaml.compose(text, Loader=yaml.SafeLoader), "", text.splitlines())
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of lockgate's chart", **made}


def written() -> str:
    """As the file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def comment(lines: list[str], line: int) -> str:
    """What stands above a line, in one piece."""
    said: list[str] = []
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        said.insert(0, lines[line].strip().lstrip("# "))
    return " ".join(said)


_TYPES: Final = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


def _of(node: Any, path: str, lines: list[str]) -> dict[str, Any]:
    if isinstance(node, yaml.SequenceNode):
        return {"type": "array", **SHAPES.get(path, {})}
    if isinstance(node, yaml.ScalarNode):
        return {"type": _TYPES[node.tag.rpartition(":")[2]], **SHAPES.get(path, {})}
    if path in SHAPES or path in OPEN or not node.value:
        return {"type": "object", **SHAPES.get(path, {})}
    properties = {}
    for key, value in node.value:
        inner = _of(value, f"{path}.{key.value}".lstrip("."), lines)
        said = comment(lines, key.start_mark.line)
        properties[key.value] = {"description": said, **inner} if said else inner
    return {"type": "object", "additionalProperties": False, "properties": properties}


def main() -> None:
    """Write the file."""
    SCHEMA.write_text(written(), encoding="utf-8")
    sys.stdout.write(f"{SCHEMA} is written\n")


if __name__ == "__main__":
    main()
