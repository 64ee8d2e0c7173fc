"""What is in the file is taken as it stands, and every mistake is one line."""

from __future__ import annotations

import re

import pytest

from gateway.config.file import ConfigError, load

TARGET = "target: {bootstrap.servers: 'a:1'}\n"


def test_interpolation(load_text, monkeypatch):
    monkeypatch.setenv("PORT", "7000")
    monkeypatch.setenv("HOST", "h${NOT_AGAIN}")

    settings = load_text(
        TARGET
        + "listener: {bootstrap_port: '${PORT}', base_port: '${PORT}', host: 'x-${HOST}', advertised_host: '$${PORT}'}"
    )

    assert settings.listener.bootstrap_port == settings.listener.base_port == 7000
    assert settings.listener.host == "x-h${NOT_AGAIN}"
    assert settings.listener.advertised_host == "${PORT}"


def test_properties_are_text_however_yaml_reads_them(load_text):
    settings = load_text("target: {bootstrap.servers: 'a:1', request.timeout.ms: 3000, client.id: 7}")

    assert settings.target == {"bootstrap.servers": "a:1", "request.timeout.ms": "3000", "client.id": "7"}


def test_the_environment_changes_nothing_by_itself(load_text, monkeypatch):
    for name in ("LOG", "API", "TARGET", "LISTENER", "LOG__LEVEL"):
        monkeypatch.setenv(name, '{"level": "debug"}')

    assert load_text(TARGET).log.level == "info"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TARGET + "listener: {bootstrap_port: 99999}", "listener.bootstrap_port: must be 65535 or less (it is 99999)"),
        (TARGET + "listener: {bootstrap_port: many}", "listener.bootstrap_port: must be a whole number"),
        (
            TARGET + "listener: {bootstrap_prot: 1}",
            "listener.bootstrap_prot: unknown key (did you mean 'bootstrap_port'?)",
        ),
        (TARGET + "listner: {}", "listner: unknown key (did you mean 'listener'?)"),
        (TARGET + "listener: {tls: {certificate: a}}", "listener.tls.key: is required"),
        (TARGET + "listener: {ports: {1: 5, 2: 5}}", "listener.ports: two brokers"),
        (TARGET + "listener: {ports: {one: 5}}", "listener.ports.one"),
        (TARGET + "listener: {ports: {1: 9292}}", "listener: bootstrap_port and ports must not share a port"),
        (TARGET + "listener: {max_request_bytes: 1}", "listener.max_request_bytes: "),
        (TARGET + "listener: {idle_timeout_s: 0}", "listener.idle_timeout_s: "),
        (TARGET + "api: {port: 9292}", "api.port: is one of the listener's ports"),
        (TARGET + "groups: {groupless: maybe}", "groups.groupless: must be 'allow' or 'deny'"),
        (TARGET + "promote: {pause_timeout_s: -1}", "promote.pause_timeout_s: "),
        (TARGET + "log: {level: loud}", "log.level: "),
        (TARGET + "log:\n  - info", "log: "),
        ("log: {level: info}", "target: is required"),
        ("target: a:1", "target: "),
        ("target: {}", "target.bootstrap.servers: missing"),
        ("target: {bootstrap.servers: nonsense}", "target.bootstrap.servers: "),
        ("target: {bootstrap.servers: 'a:1', no.such: 1}", "target.no.such: unknown client property"),
        ("target: {bootstrap.servers: 'a:1', client.id: [1]}", "target.client.id: "),
        ("target: {bootstrap.servers: '${NOT_SET_ANYWHERE}'}", "target.bootstrap.servers: ${NOT_SET_ANYWHERE}"),
        ("target: [", "not YAML: "),
        ("", "the file must hold a mapping"),
        ("- a", "the file must hold a mapping"),
    ],
)
def test_every_mistake_is_one_line_that_names_the_key(load_text, text, message):
    with pytest.raises(ConfigError) as error:
        load_text(text)

    assert re.sub(r"^gw.yaml:\d+: ", "gw.yaml: ", str(error.value)).startswith(f"gw.yaml: {message}")
    assert "\n" not in str(error.value)


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_a_password_is_never_in_the_message(load_text):
    with pytest.raises(ConfigError) as error:
        load_text("target: {bootstrap.servers: 'a:1', sasl.password: hush, security.protocol: NONE}")

    assert "hush" not in str(error.value)


def test_all_mistakes_at_once_with_their_lines(load_text):
    with pytest.raises(ConfigError) as error:
        load_text(
            "target:\n  bootstrap.servers: a:1\n  client.idd: x\n"
            "listener:\n  bootstrap_prot: 1\n  idle_timeout_s: 0\nworkers: many\nlog: {format: xml}\n"
        )

    assert error.value.problems == (
        "gw.yaml:3: target.client.idd: unknown client property (did you mean 'client.id'?)",
        "gw.yaml:5: listener.bootstrap_prot: unknown key (did you mean 'bootstrap_port'?)",
        "gw.yaml:6: listener.idle_timeout_s: must be more than 0 (it is 0)",
        "gw.yaml:7: workers: must be a whole number, or must be 'auto' (it is 'many')",
        "gw.yaml:8: log.format: must be 'console' or 'json' (it is 'xml')",
    )
    assert str(error.value).endswith("(and 4 more)")


def test_all_variables_that_are_not_set(load_text):
    with pytest.raises(ConfigError) as error:
        load_text("target:\n  bootstrap.servers: '${NOT_1}'\n  client.id: '${NOT_2}'\nlinks: {hosts: ['${NOT_3}']}\n")

    assert error.value.problems == (
        "gw.yaml:2: target.bootstrap.servers: ${NOT_1} is not set in the environment",
        "gw.yaml:3: target.client.id: ${NOT_2} is not set in the environment",
        "gw.yaml:4: links.hosts[0]: ${NOT_3} is not set in the environment",
    )
