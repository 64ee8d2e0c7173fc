"""Objects of Kubernetes against the real schemas, in an environment of its own (requirements/deploy.lock).

`build/deploy/venv/bin/python validate.py KUBERNETES CRDS < OBJECTS`: built-in kinds by the schemas of that version,
others by the custom resource definitions in the folder CRDS. Prints a line for each thing that is wrong; a kind without
a schema is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-not-found, import-untyped, unused-ignore]
import kubernetes_validate  # type: ignore[import-not-found, unused-ignore]
import yaml


def definitions(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """API version and kind -> schema, of every definition in the folder."""
    found = {}
    for file in sorted(folder.rglob("*.yaml")):
        for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            if document and document.get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                for version in spec["versions"]:
                    key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                    found[key] = _strict(version["schema"]["openAPIV3Schema"])
    return found


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Objects with named fields have no others, as the API server prunes them."""
    properties = schema.get("properties")
    made = dict(schema)
    if properties:
        kept = {name: _strict(inner) for name, inner in properties.items()}
        made["properties"] = kept
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        made["items"] = _strict(schema["items"])
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def wrong(document: dict[str, Any], version: str, custom: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    """What is wrong with an object."""
    group, kind = document["apiVersion"], document["kind"]
    called = f"{kind} {document['metadata']['name']}"
    schema = custom.get((group, kind))
    if schema is not None:
        top = {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}
        for error in jsonschema.Draft7Validator(top).iter_errors(document):
            yield f"{called}: {'.'.join(map(str, error.absolute_path))}: {error.message}"
        return
    name = group.partition("/")[0]
    if "." in name and not name.endswith(".k8s.io"):
        yield f"{called}: no schema of {group}"
        return
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as exc:
        yield f"{called}: {'.'.join(map(str, exc.path))}: {exc.message}"


def main() -> int:
    """Validate what is on standard input."""
    version, folder = sys.argv[1:]
    custom = definitions(Path(folder))
    found = 0
    for document in yaml.load_all(sys.stdin.read(), Loader=yaml.CSafeLoader):
        for line in wrong(document, version, custom) if document else ():
            sys.stdout.write(line + "\n")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
