"""What people try who know other command lines: -h, help, one link that needs no name, a name that is misspelt."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from gateway.cli.main import app
from gateway.kafka.groups import GroupView
from tests.support.control.control_plane import SOURCE
from tests.support.pages.golden import _paths
from tests.unit.cli.conftest import Run


def test_h_is_help_everywhere(run: Run) -> None:
    for path in _paths(typer.main.get_command(app), ()):
        assert "Usage: " in run(*path, "-h").stdout


def test_help_is_a_command(run: Run) -> None:
    assert "Usage: lockgate mirror list" in run("help", "mirror", "list").stdout
    assert "Usage: lockgate " in run("help").stdout


def test_the_only_link_needs_no_name(linked: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("mirror", "create", "orders")
    assert "orders" in run("mirror", "describe", "orders").stdout
    run("link", "create", "m", "--bootstrap", SOURCE, "--set", "link.prefix=m.")
    refused = run("mirror", "describe", "orders", code=2).stderr
    assert refused == "error: there are 2 links, name one with --link or LOCKGATE_LINK: l, m\n"
    monkeypatch.setenv("LOCKGATE_LINK", "l")
    assert "orders" in run("mirror", "describe", "orders").stdout
    assert run("mirror", "list", "-o", "name").stdout == "orders\n"
    assert run("mirror", "list", "--link", "m", "-o", "name").stdout == ""


def test_without_links_the_way_to_one_is_told(server: Any, run: Run) -> None:
    assert run("group", "list", code=2).stderr == (
        "error: there is no link: lockgate link create NAME --bootstrap HOST:PORT makes one\n"
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("mirror", "describe", "ordes", "--link", "west"), "orders"),
        (("mirror", "pause", "ordes", "--link", "west"), "orders"),
        (("mirror", "create", "click", "--link", "west"), "clicks"),
        (("mirror", "list", "--link", "wset"), "west"),
        (("link", "describe", "wests"), "west"),
        (("link", "configuration", "update", "west", "--set", "failback.kep=1h"), "failback.keep"),
        (("link", "create", "x", "--bootstrap", SOURCE, "--set", "client.idd=a"), "client.id"),
        (("group", "describe", "biling", "--link", "west"), "billing"),
        (("migration", "status", "clusterr"), "cluster"),
    ],
    ids=str,
)
def test_a_name_that_is_misspelt(server: Any, run: Run, words: tuple[str, ...], meant: str, tmp_path: Any) -> None:
    run("link", "create", "west", "--bootstrap", SOURCE)
    server.plane.source.add("orders", 1, 1)
    server.plane.source.add("clicks", 1, 1)
    run("mirror", "create", "orders")
    server.plane.source.groups["billing"] = GroupView(
        group="billing", state="Empty", type="classic", protocol_type="consumer", members=()
    )
    run("group", "create", "billing")
    file = tmp_path / "m.yaml"
    file.write_text("{migration: cluster, link: west, applications: [{name: a, topics: [orders], until: mirrored}]}")
    run("migration", "apply", str(file))
    assert f"(did you mean '{meant}'?)" in run(*words, code=1).stderr


def test_nothing_near_is_not_suggested(linked: Any, run: Run) -> None:
    assert run("link", "describe", "zzz", code=1).stderr == "error: link 'zzz' does not exist\n"


def test_a_state_that_there_is_not(linked: Any, run: Run) -> None:
    said = run("mirror", "list", "--mirror-status", "actve", code=2).stderr
    assert said.startswith(
        "error: --mirror-status actve: there is no such one (did you mean 'ACTIVE'?); there are ACTIVE,"
    )
    assert run("mirror", "candidates", "--reason", "nextround", code=2).stderr.count("NEXT_ROUND") == 2


def test_force_is_an_option(linked: Any, run: Run) -> None:
    run("mirror", "create", "orders")
    said = run("link", "delete", "l", code=1).stderr
    assert "or use --force" in said


def test_all_that_is_wrong_with_a_migration_file(run: Run, tmp_path: Any) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("migration: m\nlnk: west\napplications:\n- name: a\n  topics: []\n  untli: x\n")
    assert run("migration", "apply", str(file), code=2).stderr.splitlines() == [
        f"error: {file}: link: is required",
        f"error: {file}:6: applications.0.untli: unknown key (did you mean 'until'?)",
        f"error: {file}:2: lnk: unknown key (did you mean 'link'?)",
    ]


HIDDEN = """
import sys
for name in ("pyspark", "py4j", "pyarrow"):
    sys.modules[name] = None
sys.argv = ["lockgate", *sys.argv[1:]]
from gateway.cli.main import main
main()
"""


@pytest.mark.parametrize("command", ["catch-up", "translate-offsets", "audit", "plan"])
def test_jobs_of_a_plain_install(command: str) -> None:
    def lockgate(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", HIDDEN, *words], capture_output=True, text=True, check=False)

    ran = lockgate("job", command, "--link", "l")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: the jobs need Spark: pip install 'lockgate[spark]'")
    assert ran.stderr.count("\n") == 1
    shown = lockgate("job", command, "-h")
    assert shown.returncode == 0
    assert "Its options are shown once Spark is there" in " ".join(shown.stdout.split())
    if command == "plan":
        listed = lockgate("job", "--help")
        assert listed.returncode == 0
        assert all(name in listed.stdout for name in ("catch-up", "translate-offsets", "audit", "plan"))
