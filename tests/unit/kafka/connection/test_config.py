from pathlib import Path

import pytest

from gateway.kafka.connection.config import ClusterConfig

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}

BEARER = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://h/t",
    "sasl.oauthbearer.client.id": "id",
    "sasl.oauthbearer.client.secret": "hush",
}


def config(**properties: str) -> ClusterConfig:
    return ClusterConfig.from_client_properties({"bootstrap.servers": "a:1", **properties})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b.c:65535,", (("a", 1), ("b.c", 65535))),
        ("[::1]:9092", (("::1", 9092),)),
        ("SASL_SSL://a:1,PLAINTEXT://b:2", (("a", 1), ("b", 2))),
    ],
)
def test_bootstrap_servers(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert config(**{"bootstrap.servers": text}).bootstrap == expected


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"bootstrap.servers": ""}, r"^bootstrap.servers: expected host:port"),
        ({"bootstrap.servers": "a"}, r"^bootstrap.servers: 'a' is not host:port"),
        ({"bootstrap.servers": "a:0"}, r"^bootstrap.servers: "),
        ({"bootstrap.servers": "a:70000"}, r"^bootstrap.servers: "),
        ({"bootstrap.servers": "a:²"}, r"^bootstrap.servers: "),
        ({"bootstrap.servers": "::1:9092"}, r"^bootstrap.servers: .*brackets"),
        ({"sasl.usernam": "x"}, r"^sasl.usernam: unknown client property"),
        ({"security.protocol": "TLS"}, r"^security.protocol: 'TLS' is not one of"),
        ({"security.protocol": "SASL_SSL"}, r"^sasl.mechanism: "),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, r"^sasl.mechanism: 'GSSAPI' is not one of"),
        (
            {**BEARER, "sasl.oauthbearer.token.endpoint.url": "http://h/t"},
            r"^sasl.oauthbearer.token.endpoint.url: 'http",
        ),
        ({**BEARER, "sasl.oauthbearer.client.id": ""}, r"^sasl.oauthbearer.client.id: missing"),
        ({**BEARER, "sasl.oauthbearer.client.secret": ""}, r"^sasl.oauthbearer.client.secret: missing"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            r"^sasl.oauthbearer.token.endpoint.url: mis",
        ),
        ({**SASL, "sasl.username": ""}, r"^sasl.username: missing"),
        ({**SASL, "sasl.password": ""}, r"^sasl.password: missing"),
        ({"sasl.mechanism": "PLAIN"}, r"^sasl.mechanism: security.protocol is PLAINTEXT"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/no.pem"},
            r"^ssl.ca.location: cannot read /no.pem",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "/k.pem"}, r"^ssl.key.location: ssl.certificate.location"),
        ({"ssl.endpoint.identification.algorithm": "maybe"}, r"^ssl.endpoint.identification.algorithm: "),
        ({"request.timeout.ms": "0"}, r"^request.timeout.ms: "),
        ({"request.timeout.ms": "1s"}, r"^request.timeout.ms: "),
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, r"^sasl.jaas.config: only "),
        (
            {"sasl.jaas.config": "PlainLoginModule required " + "a" * 4096},
            r"^sasl.jaas.config: 4096 characters at most",
        ),
    ],
)
def test_bad_properties_are_one_line_that_names_the_property(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        config(**properties)
    assert "\n" not in str(caught.value)


def test_bootstrap_servers_must_be_there() -> None:
    with pytest.raises(ValueError, match=r"^bootstrap.servers: missing"):
        ClusterConfig.from_client_properties({})


def test_a_file_that_is_not_pem(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"^ssl.ca.location: .* is not a usable PEM file"):
        config(**{"security.protocol": "SSL", "ssl.ca.location": str(path)})


def test_sasl_properties_and_a_jaas_line_say_the_same() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = {"sasl.jaas.config": f'{module} required username="u" password="p\\"q";'}
    given = config(**{**SASL, "sasl.password": 'p"q'})
    told = config(**{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **jaas})

    assert (told.sasl_username, told.sasl_password) == (given.sasl_username, given.sasl_password) == ("u", 'p"q')


@pytest.mark.parametrize(("text", "checked"), [("https", True), ("none", False), ("", False)])
def test_host_name_check(text: str, checked: bool) -> None:
    made = config(**{"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": text}).ssl_context()

    assert made is not None
    assert made.check_hostname is checked


def test_times_and_backoffs_are_milliseconds() -> None:
    made = config(**{"request.timeout.ms": "1500", "retry.backoff.ms": "5000"})

    assert made.request_timeout_s == 1.5
    assert made.retry_backoff_s == (5.0, 5.0)


def test_secrets_do_not_show() -> None:
    assert "hush" not in repr(config(**BEARER))
    assert "hush" not in repr(config(**{**SASL, "sasl.password": "hush", "ssl.key.password": "hush"}))
