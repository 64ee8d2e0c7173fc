"""Settings: the examples load, defaults are what full.yaml says, and every mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError, Settings, load

EXAMPLES = Path(__file__).parents[2] / "configs"
TARGET = "target: {bootstrap.servers: 'a:1'}\n"


@pytest.fixture
def load_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work(text: str) -> Settings:
        Path("gw.yaml").write_text(text, encoding="utf-8")
        return load(Path("gw.yaml"))

    return work


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_loads(example, monkeypatch):
    monkeypatch.setenv("TARGET_BOOTSTRAP", "broker:9093")
    monkeypatch.setenv("TARGET_PASSWORD", "s3cret")

    settings = load(example)

    assert settings.target["bootstrap.servers"]


def test_there_are_examples():
    assert {path.name for path in EXAMPLES.glob("*.yaml")} >= {"minimal.yaml", "full.yaml", "secured.yaml"}


def test_full_shows_the_defaults_and_all_of_them():
    assert load(EXAMPLES / "full.yaml").model_dump() == {
        **load(EXAMPLES / "minimal.yaml").model_dump(),
        "listener": {**load(EXAMPLES / "minimal.yaml").listener.model_dump(), "advertised_host": "127.0.0.1"},
    }
    text = (EXAMPLES / "full.yaml").read_text(encoding="utf-8")
    for name, section in Settings.model_fields.items():
        assert f"\n{name}:" in text
        for key in getattr(section.annotation, "model_fields", {}):
            assert key == "tls" or f"\n  {key}:" in text


def test_secrets_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TARGET_BOOTSTRAP", "broker:9093")
    monkeypatch.setenv("TARGET_PASSWORD", "s3cret")

    assert load(EXAMPLES / "secured.yaml").target["sasl.password"] == "s3cret"


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


def test_what_is_advertised(load_text):
    assert load_text(TARGET + "listener: {host: 10.0.0.1}").listener.advertised == "10.0.0.1"
    assert load_text(TARGET + "listener: {host: 0.0.0.0, advertised_host: gw}").listener.advertised == "gw"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TARGET + "listener: {bootstrap_port: 99999}", "listener.bootstrap_port: Input should be less than"),
        (TARGET + "listener: {bootstrap_port: many}", "listener.bootstrap_port: Input should be a valid integer"),
        (TARGET + "listener: {bootstrap_prot: 1}", "listener.bootstrap_prot: unknown key"),
        (TARGET + "listner: {}", "listner: unknown key"),
        (TARGET + "listener: {tls: {certificate: a}}", "listener.tls.key: is required"),
        (TARGET + "listener: {ports: {1: 5, 2: 5}}", "listener.ports: two brokers"),
        (TARGET + "listener: {ports: {one: 5}}", "listener.ports.one"),
        (TARGET + "listener: {ports: {1: 9292}}", "listener: bootstrap_port and ports must not share a port"),
        (TARGET + "listener: {max_request_bytes: 1}", "listener.max_request_bytes: "),
        (TARGET + "listener: {idle_timeout_s: 0}", "listener.idle_timeout_s: "),
        (TARGET + "api: {port: 9292}", "api.port: is one of the listener's ports"),
        (TARGET + "groups: {groupless: maybe}", "groups.groupless: Input should be 'allow' or 'deny'"),
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

    assert str(error.value).startswith(f"gw.yaml: {message}")
    assert "\n" not in str(error.value)


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_a_password_is_never_in_the_message(load_text):
    with pytest.raises(ConfigError) as error:
        load_text("target: {bootstrap.servers: 'a:1', sasl.password: hush, security.protocol: NONE}")

    assert "hush" not in str(error.value)


LISTENER = "listener: {bootstrap_port: 9292, base_port: 9300}\n"
SASL = (
    "target: {bootstrap.servers: 'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: a, "
    "sasl.password: b}\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TARGET + "listener: {protocol: SSL}", "listener: protocol SSL needs tls"),
        (TARGET + "listener: {protocol: PLAINTEXT, tls: {certificate: a, key: b}}", "protocol PLAINTEXT has no tls"),
        (TARGET + "listener: {protocol: TLS}", "listener.protocol: "),
        (
            TARGET + "listener: {protocol: SASL_PLAINTEXT}",
            "listener.protocol: SASL_PLAINTEXT, but clients log in at the",
        ),
        (
            SASL + "listener: {protocol: PLAINTEXT}",
            "listener.protocol: PLAINTEXT, but .* security.protocol is SASL",
        ),
        (TARGET + "listener: {tls: {certificate: a, key: b, client_auth: required}}", "client_ca and client_auth"),
        (
            TARGET + "listener: {tls: {certificate: a, key: b, principal_mapping_rules: 'default'}}",
            "principal_mapping_rules: 'default' does not begin with DEFAULT or RULE",
        ),
        (TARGET + LISTENER + "listeners: {x: {bootstrap_port: 9393}}", "listeners.x.base_port: is required"),
        (
            TARGET + LISTENER + "listeners: {x: {bootstrap_port: 9292, base_port: 9400}}",
            "listeners.x.bootstrap_port: 9292 is listener.bootstrap_port, too",
        ),
        (
            TARGET + LISTENER + "listeners: {x: {bootstrap_port: 9393, base_port: 9300, host: 0.0.0.0}}",
            "listeners.x.base_port: 9300 is listener.base_port, too",
        ),
        (
            TARGET + LISTENER + "listeners: {x: {bootstrap_port: 8642, base_port: 9400}}",
            "listeners.x.bootstrap_port: 8642 is api.port, too",
        ),
        (
            TARGET + "listener: {ports: {1: 9301}}\nlisteners: {x: {bootstrap_port: 9393, base_port: 9400}}",
            "listeners.x.ports: is needed, since listener.ports is set",
        ),
        (TARGET + "listeners: {a.b: {bootstrap_port: 9393, base_port: 9400}}", "listeners"),
    ],
)
def test_listeners_of_no_use(load_text, text, message):
    with pytest.raises(ConfigError, match=message):
        load_text(text)


def test_listeners_side_by_side(load_text):
    other = "listeners: {x: {host: 127.0.0.2, bootstrap_port: 9292, base_port: 9300, protocol: SASL_PLAINTEXT}}"
    settings = load_text(SASL + LISTENER + other)
    assert list(settings.endpoints()) == ["listener", "listeners.x"]
