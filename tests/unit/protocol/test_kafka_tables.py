"""A gateway has kafka-python's tables of messages, and not the client that comes with them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ALL_OF_A_GATEWAY = """
import importlib, pkgutil, sys
import gateway, protocol
for package in (protocol, gateway):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.startswith(("gateway.jobs", "gateway.cli.jobs", "gateway.devcluster", "gateway.cli.dev")):
            importlib.import_module(found.name)
print(sorted(name for name in sys.modules if name.split(".")[0] == "kafka" and not name.startswith("kafka.protocol")))
"""


def run(text: str, *places: Path) -> str:
    """What a process of its own prints; `places` are looked in first."""
    path = ":".join(map(str, (*places, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", text], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_gateway_does_not_import_the_client() -> None:
    """Finding 22."""
    assert run(ALL_OF_A_GATEWAY) == "['kafka.errors', 'kafka.structs', 'kafka.util']"


def test_the_image_keeps_what_is_imported(tmp_path: Path) -> None:
    """As its Dockerfile takes the rest of the package away."""
    kept = re.findall(r"! -name (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    spec = importlib.util.find_spec("kafka")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "kafka", ignore=shutil.ignore_patterns("*.pyc"))
    for each in (tmp_path / "kafka").iterdir():
        if each.name not in kept:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    assert "protocol" in kept
    assert "net" not in kept
    where = f"{ALL_OF_A_GATEWAY}\nprint(sys.modules['kafka.protocol'].__file__)"
    assert run(where, tmp_path).endswith(str(tmp_path / "kafka/protocol/__init__.py"))


def test_who_wants_the_client_has_it() -> None:
    """Tests and demos: the messages are the same classes."""
    text = (
        "import protocol.messages as ours, kafka.protocol.metadata as theirs; from kafka import KafkaProducer; "
        "print(ours.MetadataRequest is theirs.MetadataRequest, KafkaProducer.__name__)"
    )
    assert run(text) == "True KafkaProducer"
