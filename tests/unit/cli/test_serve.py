from __future__ import annotations

import importlib.metadata

import gateway.runtime
import gateway.telemetry.logs
from tests.unit.config.test_settings import EXAMPLES


def test_bad_settings_are_2_and_a_line_each(run, tmp_path):
    file = tmp_path / "gw.yaml"
    file.write_text(
        "target: {bootstrap.servers: 'a:1'}\nlistener: {bootstrap_port: 99999}\nlgo: {}\n", encoding="utf-8"
    )

    result = run("serve", "--config", str(file), code=2)

    assert result.stderr.splitlines() == [
        f"error: {file}:2: listener.bootstrap_port: must be 65535 or less (it is 99999)",
        f"error: {file}:3: lgo: unknown key (did you mean 'log'?)",
    ]


def test_no_file_is_2(run, tmp_path):
    assert "No such file" in run("serve", "--config", str(tmp_path / "none"), code=2).stderr
    assert "--config" in run("serve", code=2).stderr


def test_it_runs_the_gateway_and_ends_with_its_exit_code(run, monkeypatch):
    seen: list[object] = []

    def fake_run(settings):
        seen.append(settings.listener.bootstrap_port)
        return 1

    monkeypatch.setattr(gateway.runtime, "run", fake_run)
    monkeypatch.setattr(gateway.telemetry.logs, "configure", lambda *how: seen.append(how))
    run("serve", "--config", str(EXAMPLES / "minimal.yaml"), code=1)

    assert seen == [("info", "console"), 9292]


def test_version(run):
    assert run("--version").stdout == f"lockgate {importlib.metadata.version('lockgate')}\n"
    assert run("version").stdout == run("--version").stdout
