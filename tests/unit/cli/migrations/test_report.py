"""`lockgate report`: made, signed, checked."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FILE = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"], "until": "mirrored"}]}
AUDIT = {
    "verdict": "IDENTICAL",
    "digest": "d1",
    "started": "2026-11-25T00:00:00Z",
    "finished": "2026-11-25T00:01:00Z",
    "source": {"cluster_id": "S"},
    "target": {"cluster_id": "T"},
    "topics": ["orders"],
    "sample": {"fraction": 1.0, "seed": 0},
    "partitions": [{"verdict": "IDENTICAL"}, {"verdict": "DIFFERENT"}],
}


@pytest.fixture
def keys(run, tmp_path: Path) -> tuple[Path, Path]:
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    run("report", "key", str(private), str(public))
    return private, public


@pytest.fixture
def made(linked, run, tmp_path: Path, keys) -> tuple[Path, Path]:
    """The JSON and the page, both signed."""
    file, audit = tmp_path / "m.yaml", tmp_path / "audit.json"
    file.write_text(yaml.safe_dump(FILE))
    audit.write_text(json.dumps(AUDIT))
    run("migration", "apply", str(file))
    report, page = tmp_path / "r.json", tmp_path / "r.html"
    arguments = ["--migration", "m", "--json", str(report), "--html", str(page), "--audit", str(audit)]
    run("report", "create", *arguments, "--key", str(keys[0]))
    return report, page


def test_it_tells_what_moved_and_takes_audits_in(made):
    report = json.loads(made[0].read_text())
    assert (report["kind"], report["migration"], report["link"]) == ("LockgateMigrationReport", "m", "l")
    assert report["applications"][0]["topics"][0]["name"] == "orders"
    assert report["journal"][0]["what"] == "APPLIED"
    assert report["audits"][0]["different_partitions"] == 1
    assert report["versions"]["lockgate"]
    page = made[1].read_text()
    assert hashlib.sha256(made[0].read_bytes()).hexdigest() in page
    assert not any(word in page for word in ("src=", "href=", "@import", "url("))


def test_as_it_was_signed(made, keys, run):
    for file in made:
        assert (
            "as it was signed with key SHA256:"
            in run("report", "verify", str(file), "--public-key", str(keys[1])).stdout
        )


@pytest.mark.parametrize("which", [0, 1])
def test_one_byte_more_is_found(made, keys, run, which):
    made[which].write_bytes(made[which].read_bytes() + b" ")
    said = run("report", "verify", str(made[which]), "--public-key", str(keys[1]), code=1).stderr
    assert "it is not as it was signed" in said


def test_another_key_is_found(made, run, tmp_path):
    run("report", "key", str(tmp_path / "other"), str(tmp_path / "other.pub"))
    run("report", "verify", str(made[0]), "--public-key", str(tmp_path / "other.pub"), code=1)


def test_a_signature_that_is_none(made, keys, run, tmp_path):
    short = tmp_path / "short.sig"
    short.write_bytes(b"x")
    arguments = ["report", "verify", str(made[0]), "--public-key", str(keys[1]), "--signature"]
    assert "a signature has 64 bytes, this has 1" in run(*arguments, str(short), code=2).stderr
    assert "No such file" in run(*arguments, str(tmp_path / "none"), code=2).stderr
    assert "no public key" in run("report", "verify", str(made[0]), "--public-key", str(made[0]), code=2).stderr


def test_openssl_says_the_same(made, keys):
    program = shutil.which("openssl")
    assert program, "openssl is needed"
    signature = made[0].with_name(made[0].name + ".sig")
    command = [program, "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(keys[1]), "-sigfile", str(signature)]
    found = subprocess.run([*command, "-in", str(made[0])], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_a_key_that_others_may_read_is_refused(keys, run, tmp_path):
    assert keys[0].stat().st_mode & 0o077 == 0
    keys[0].chmod(0o644)
    said = run(
        "report", "create", "--migration", "m", "--json", str(tmp_path / "x"), "--key", str(keys[0]), code=2
    ).stderr
    assert "chmod 600" in said


def test_a_key_is_never_written_over(keys, run):
    assert "exists" in run("report", "key", str(keys[0]), str(keys[1]), code=2).stderr


def test_an_audit_of_another_cluster_is_not_signed(made, run, tmp_path):
    audit, out = tmp_path / "other.json", tmp_path / "x.json"
    audit.write_text(json.dumps(AUDIT | {"source": {"cluster_id": "X"}}))
    arguments = ["report", "create", "--migration", "m", "--json", str(out), "--audit", str(audit)]
    assert f"{audit}: the audit's source is the cluster X" in run(*arguments, code=2).stderr
    assert not out.exists()


def test_what_is_no_audit_and_no_migration(linked, run, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    arguments = ["report", "create", "--migration", "m", "--json", str(tmp_path / "x")]
    assert "no JSON report" in run(*arguments, "--audit", str(other), code=2).stderr
    assert "no migration 'm'" in run(*arguments, code=1).stderr
