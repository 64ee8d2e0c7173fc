"""The chart as Helm renders it, for each shape of values in its folder `ci/`: `python -m tests.support.deploy.chart`.

The golden files in tests/golden/helm are what the cluster gets, byte for byte. They are made by that command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.deploy.values_schema import CHART

ROOT: Final = Path(__file__).parents[3]
GOLDEN: Final = ROOT / "tests" / "golden" / "helm"
KUBERNETES: Final = "1.34"
_TOOLS: Final = Path(os.environ.get("LOCKGATE_DEPLOY_TOOLS", ROOT / "build" / "deploy"))
VALIDATOR: Final = _TOOLS / "venv" / "bin" / "python"
DEFINITIONS: Final = _TOOLS / "crds"


def tool(name: str) -> str | None:
    """Where a tool of `make deploy-tools` is, or one of $PATH."""
    return shutil.which(name, path=f"{_TOOLS / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")


def shapes() -> list[str]:
    """Names of the shapes of values."""
    return sorted(file.name.removesuffix("-values.yaml") for file in (CHART / "ci").glob("*-values.yaml"))


def rendered(shape: str, *further: str) -> str:
    """The objects of a shape, as text. Raises CalledProcessError: Helm refuses the values."""
    return template(["--values", str(CHART / "ci" / f"{shape}-values.yaml"), *further])


def template(args: Sequence[str]) -> str:
    """What `helm template` makes."""
    helm = tool("helm")
    assert helm is not None
    command = [helm, "template", "lockgate", str(CHART), "--namespace", "kafka", "--kube-version", f"{KUBERNETES}.0"]
    return subprocess.run([*command, *args], check=True, capture_output=True, text=True).stdout


def objects(text: str, kind: str) -> list[dict[str, Any]]:
    """Those of one kind."""
    return [one for one in yaml.safe_load_all(text) if one and one["kind"] == kind]


def main() -> None:
    """Write the golden files."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for shape in shapes():
        (GOLDEN / f"{shape}.yaml").write_text(rendered(shape), encoding="utf-8")
        sys.stdout.write(f"{GOLDEN / shape}.yaml\n")


if __name__ == "__main__":
    main()
