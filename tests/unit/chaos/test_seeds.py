"""The search for secrets that a run has put into its gateways finds them wherever they are."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.chaos.seeds import _CHUNK, BUNDLE, Seeds


def test_nothing_is_found_where_they_belong(tmp_path: Path) -> None:
    seeds = Seeds(tmp_path)
    (tmp_path / "gateway-0.token").write_text("a-token-of-rest\n", encoding="ascii")
    (tmp_path / "gateway-0.log").write_text("started\n", encoding="ascii")
    assert seeds.leaked() == ""


@pytest.mark.parametrize("which", ["sasl.password", "variable", "key", "token"])
def test_one_in_a_log_in_state_or_in_a_bundle_is_found(tmp_path: Path, which: str) -> None:
    seeds = Seeds(tmp_path)
    (tmp_path / "gateway-0.token").write_text("a-token-of-rest\n", encoding="ascii")
    text = {
        "sasl.password": seeds.of_link["sasl.password"],
        "variable": next(iter(seeds.environment.values())),
        "key": seeds.key_file.read_text(encoding="ascii"),
        "token": "a-token-of-rest",
    }[which].encode()
    log = tmp_path / "gateway-0.log"
    log.write_bytes(b"x" * (_CHUNK - 5) + text)  # over two pieces
    assert seeds.leaked().endswith("is in gateway-0.log")
    log.unlink()
    state = tmp_path / "target" / "1" / "__lockgate-state-0" / "0.log"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"\0" + text + b"\0")
    assert "__lockgate-state-0/0.log" in seeds.leaked()
    state.unlink()
    with tarfile.open(tmp_path / BUNDLE, "w:gz") as bundle:
        entry = tarfile.TarInfo("settings.yaml")
        entry.size = len(text)
        bundle.addfile(entry, io.BytesIO(text))
    assert f"{BUNDLE}: settings.yaml" in seeds.leaked()
