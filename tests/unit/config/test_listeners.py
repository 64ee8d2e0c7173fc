"""Listeners that fit together, and those that do not."""

from __future__ import annotations

import pytest

from gateway.config.file import ConfigError

TARGET = "target: {bootstrap.servers: 'a:1'}\n"


def test_what_is_advertised(load_text):
    assert load_text(TARGET + "listener: {host: 10.0.0.1}").listener.advertised == "10.0.0.1"
    assert load_text(TARGET + "listener: {host: 0.0.0.0, advertised_host: gw}").listener.advertised == "gw"


LISTENER = "listener: {bootstrap_port: 9292, base_port: 9300}\n"
SASL = (
    "target: {bootstrap.servers: 'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: a, "
    "sasl.password: b}\n"
)
MUTUAL = "tls: {certificate: a, key: b, client_ca: c, client_auth: required}"
BEARER = "oauth: {jwks_url: 'https://h/keys', issuer: i, audience: a}, tls: {certificate: a, key: b}"


SNI = "addressing: sni, advertised_host: x.io, tls: {certificate: a, key: b}"


def test_by_names_one_port_is_enough(load_text):
    names = f"{SNI}, advertised_host_pattern: 'b-$(nodeId).x.io', bootstrap_port: 9393, advertised_port: 443"
    loaded = load_text(TARGET + LISTENER + f"listeners: {{x: {{{names}}}}}")
    assert loaded.listeners["x"].names.host_of(3) == "b-3.x.io"
    assert loaded.listeners["x"].advertised_bootstrap == ("x.io", 443)


def test_ports_that_are_told_may_be_others_than_those_that_are_listened_on(load_text):
    ports = "base_port: 9300, advertised_base_port: 19300, advertised_port: 19292"
    first = load_text(TARGET + f"listener: {{{ports}}}").listener
    assert (first.told_behind, first.advertised_bootstrap) == (10_000, ("127.0.0.1", 19_292))


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
        (TARGET + "listener: {addressing: sni}", "addressing sni: needs tls"),
        (TARGET + "listener: {addressing: both, tls: {certificate: a, key: b}}", "needs .*nodeId"),
        (TARGET + f"listener: {{{SNI}, advertised_host_pattern: b.x.io}}", "needs .*nodeId.* once"),
        (
            TARGET + f"listener: {{{SNI}, advertised_host_pattern: b-$(nodeId).x.io, ports: {{1: 2}}}}",
            "ports: there are",
        ),
        (TARGET + "listener: {advertised_host_pattern: b-$(nodeId).x.io}", "needs addressing"),
        (TARGET + "listener: {ports: {1: 2}, advertised_base_port: 3}", "advertised_base_port: takes base_port"),
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
        (SASL + "listener: {identity: token}", "identity token: takes tls, with client_auth: required or with oauth"),
        (
            SASL + "listener: {identity: token, tls: {certificate: a, key: b}}",
            "identity token: takes tls, with client_auth",
        ),
        (TARGET + f"listener: {{identity: token, {MUTUAL}}}", "listener.identity: token, but .* it takes SASL_SSL"),
        (SASL + f"listener: {{identity: token, protocol: SASL_SSL, {MUTUAL}}}", "with certificates come by SSL"),
        (SASL + f"listener: {{identity: token, protocol: SSL, {BEARER}}}", "with OAUTHBEARER come by SASL_SSL"),
        (SASL + f"listener: {{{BEARER}}}", "oauth: with identity relay the target checks tokens itself"),
        (SASL + f"listener: {{identity: token, {BEARER.replace('https', 'http')}}}", "listener.oauth.jwks_url"),
        (SASL + "listener: {host: 0.0.0.0}", "listener: logins at 0.0.0.0 could be read on the wire: give it tls"),
        (
            SASL + "listeners: {x: {host: gw.example, bootstrap_port: 9392, base_port: 9400}}",
            "listeners.x: logins at gw.example could be read .* protocol: SASL_PLAINTEXT says that they may be",
        ),
    ],
)
def test_listeners_of_no_use(load_text, text, message):
    with pytest.raises(ConfigError, match=message):
        load_text(text)


def test_listeners_side_by_side(load_text):
    other = "listeners: {x: {host: 127.0.0.2, bootstrap_port: 9292, base_port: 9300, protocol: SASL_PLAINTEXT}}"
    settings = load_text(SASL + LISTENER + other)
    assert list(settings.endpoints()) == ["listener", "listeners.x"]


def test_logins_in_the_clear_are_said_to_be_so(load_text):
    """Finding 8: clients that used SASL_SSL at the broker would come by SASL_PLAINTEXT here, and nobody would know."""
    tls = "tls: {certificate: a, key: b}"
    for listener in ("{}", "{host: '::1'}", "{host: 127.0.0.9}", "{host: localhost}", f"{{host: 0.0.0.0, {tls}}}"):
        assert load_text(f"{SASL}listener: {listener}").in_the_clear() == []
    said = load_text(SASL + "listener: {host: 0.0.0.0, protocol: SASL_PLAINTEXT}")
    assert said.in_the_clear() == ["listener"]
    assert load_text(TARGET + "listener: {host: 0.0.0.0}").in_the_clear() == []
