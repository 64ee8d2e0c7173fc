"""`lockgate users`: secrets are read here or named, and never given as arguments."""

from __future__ import annotations

import json
import sys

import pytest

from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism, salted

ALICE, BOB = ScramKey("alice", ScramMechanism.SHA_256), ScramKey("bob", ScramMechanism.SHA_512)


@pytest.fixture
def users(linked):
    linked.plane.source.scram = {key: ScramCredential(key, 4096, b"s", b"p") for key in (ALICE, BOB)}
    return linked.plane


def made_of(plane, key: ScramKey, password: str) -> bool:
    credential = plane.target.scram.get(key)
    return credential is not None and credential == salted(key, 4096, credential.salt, password)


def test_a_plan_is_a_diff(users, run):
    users.target.scram = {BOB: users.source.scram[BOB]}
    users.source.features = {"share.version": 1}
    lines = run("users", "plan", "--link", "l").stdout.splitlines()
    assert lines[0] == "+ alice SCRAM-SHA-256: MISSING"
    assert lines[1] == "= bob SCRAM-SHA-512: PRESENT"
    assert lines[2].startswith("! not copied: FEATURE_LEVEL share.version 1 -> -: ")
    assert lines[-1] == "1 PRESENT, 1 MISSING"
    assert json.loads(run("users", "plan", "--link", "l", "-o", "json").stdout)["counts"]["MISSING"] == 1


def test_secrets_of_a_file(users, run, tmp_path):
    file = tmp_path / "secrets"
    file.write_text("alice=hush\n")
    file.chmod(0o644)
    assert "others can read it" in run(
        "users", "apply", "--link", "l", "--secrets-file", str(file), code=2
    ).stderr.replace("\n", " ")
    file.chmod(0o600)
    done = run("users", "apply", "--link", "l", "--secrets-file", str(file), code=1)
    assert "+ alice SCRAM-SHA-256: CREATED" in done.stdout
    assert "! bob SCRAM-SHA-512: NO_SECRET, no secret was given for it" in done.stdout
    assert "hush" not in done.stdout + done.stderr
    assert made_of(users, ALICE, "hush")
    assert not made_of(users, BOB, "hush")


def test_secrets_of_a_command(users, run):
    command = f"{sys.executable} -c \"import os; print('of ' + os.environ['LOCKGATE_USER'])\""
    run("users", "apply", "--link", "l", "--secret-command", command)
    assert made_of(users, ALICE, "of alice")
    assert made_of(users, BOB, "of bob")


def test_a_command_that_fails_has_no_secret(users, run):
    done = run("users", "apply", "--link", "l", "--secret-command", "false", "--user", "alice", code=1)
    assert "NO_SECRET" in done.stdout
    assert run("users", "apply", "--link", "l", "--secret-command", "/nowhere", code=2).stderr.startswith("error: ")


def test_who_needs_none_is_left_out(users, run):
    file = "--secret-command", "echo x"
    done = run("users", "apply", "--link", "l", *file, "--identity-token", "bob")
    assert "= bob SCRAM-SHA-512: NOT_NEEDED" in done.stdout
    assert list(users.target.scram) == [ALICE]


def test_a_dry_run_makes_nobody(users, run):
    run("users", "apply", "--link", "l", "--secret-command", "echo x", "--dry-run")
    assert users.target.scram == {}


def test_usage(users, run):
    assert "say where the secrets are" in run("users", "apply", "--link", "l", code=2).stderr
    refused = run("users", "apply", "--link", "l", "--secrets", "hush", code=1).stderr
    assert refused.startswith("error: secrets: expected ${file:/path:*}")
    assert "hush" not in refused
