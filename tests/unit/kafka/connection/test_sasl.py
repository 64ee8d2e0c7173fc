"""SCRAM against the examples of RFC 5802's successors and against a server's side written from the RFC.

Where the gateway's own tokens of OAUTHBEARER come from, and what is wrong with them: one line.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable
from gateway.kafka.connection.sasl import MAX_BYTES, OAuthBearer, Plain, Scram, bearer_token, mechanism
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import REDACTED, shown
from tests.support.identities.certificates import Certificates
from tests.support.identities.https_server import https_server

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def example() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = example()

    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == CLIENT_FINAL
    assert scram.respond(SERVER_FINAL) is None


def test_sha_512_gives_what_the_server_computes() -> None:
    scram = Scram("SCRAM-SHA-512", "a,b=c", "sécret", nonce="me")
    assert scram.first() == b"n,,n=a=2Cb=3Dc,r=me"
    salt, server_first = b"salt", b"r=meyou,s=c2FsdA==,i=4096"
    salted = hashlib.pbkdf2_hmac("sha512", "sécret".encode(), salt, 4096)
    message = b"n=a=2Cb=3Dc,r=me," + server_first + b",c=biws,r=meyou"
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()

    final = scram.respond(server_first)

    assert final is not None
    proof = base64.b64decode(final.split(b",p=")[1])
    signature = hmac.digest(stored, message, "sha512")
    key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha512(key).digest() == stored
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512")
    assert scram.respond(b"v=" + base64.b64encode(server_signature)) is None


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    scram = example()
    scram.respond(SERVER_FIRST)

    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        scram.respond(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (b"e=unknown-user", "unknown-user"),
        (b"r=somebody-else,s=W22Z,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=1", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=100001", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=999999999", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=?,i=4096", "malformed"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=many", "malformed"),
        (b"r=rOprNGfwEbeRWgbNEkqO1", "malformed"),
        (b"", "malformed"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_a_bad_first_message_is_refused(token: bytes, said: str) -> None:
    with pytest.raises(AuthenticationFailed, match=said):
        example().respond(token)


def test_an_early_end_of_the_exchange_is_refused() -> None:
    scram = example()
    scram.respond(SERVER_FIRST)

    with pytest.raises(AuthenticationFailed, match="malformed"):
        scram.respond(b"")


def test_plain_is_one_token() -> None:
    plain = mechanism("PLAIN", "user", "pass")

    assert isinstance(plain, Plain)
    assert plain.first() == b"\0user\0pass"
    assert plain.respond(b"") is None


ANSWERS = {
    "/good": json.dumps({"access_token": "a.b.c", "token_type": "Bearer"}),
    "/mac": json.dumps({"access_token": "a.b.c", "token_type": "mac"}),
    "/none": "{}",
    "/text": "a.b.c",
    "/spaces": json.dumps({"access_token": "a b"}),
    "/long": " " * (MAX_BYTES + 1),
}


class Endpoint(BaseHTTPRequestHandler):
    asked: list[tuple[str, dict[str, list[str]]]] = []  # noqa: RUF012 - of all

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.asked.append((login, parse_qs(form)))
        self.send_response(200 if self.path in ANSWERS else 401)
        self.end_headers()
        self.wfile.write(ANSWERS.get(self.path, "no").encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    certificates = Certificates(tmp_path_factory.mktemp("pki"))
    with https_server(Endpoint, certificates) as url:
        yield url, certificates.ca


def config(url: str, **more: str) -> ClusterConfig:
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "mover:1",
        "sasl.oauthbearer.client.secret": "hu sh",
        **more,
    }
    return ClusterConfig.from_client_properties(properties)


async def test_an_endpoint_gives_one_to_a_client_with_a_secret(endpoint: tuple[str, Path]) -> None:
    url, ca = endpoint
    more = {"https.ca.location": str(ca), "sasl.oauthbearer.scope": "kafka"}
    assert await bearer_token(config(f"{url}/good", **more)) == "a.b.c"
    assert Endpoint.asked[-1] == ("mover%3A1:hu+sh", {"grant_type": ["client_credentials"], "scope": ["kafka"]})


@pytest.mark.parametrize("path", ["/refused", "/mac", "/none", "/text", "/spaces", "/long"])
async def test_answers_without_a_token(endpoint: tuple[str, Path], path: str) -> None:
    url, ca = endpoint
    with pytest.raises(ClusterUnavailable, match=r"^sasl\.oauthbearer\.token\.endpoint\.url: https") as error:
        await bearer_token(config(f"{url}{path}", **{"https.ca.location": str(ca)}))
    assert "\n" not in str(error.value)


async def test_an_endpoint_that_is_not_trusted_gets_no_secret(endpoint: tuple[str, Path]) -> None:
    before = len(Endpoint.asked)
    with pytest.raises(ClusterUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await bearer_token(config(f"{endpoint[0]}/good"))
    assert len(Endpoint.asked) == before


async def test_a_file_that_others_renew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = config(path.as_uri())
    with pytest.raises(ClusterUnavailable, match="No such file"):
        await bearer_token(made)
    for text in ("a.b.c\n", "d.e.f"):
        path.write_text(text, encoding="ascii")
        assert await bearer_token(made) == text.strip()
    for useless in (b"", b"a b", b"\xff", b"a\x01auth=x"):
        path.write_bytes(useless)
        with pytest.raises(ClusterUnavailable, match="not a token"):
            await bearer_token(made)


def test_the_message_and_what_a_broker_says_to_it() -> None:
    bearer = OAuthBearer("a.b.c")
    assert bearer.first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert bearer.respond(b"") is None
    assert bearer.respond(b'{"status":"invalid_token"}') == b"\x01"


def test_of_links_the_file_is_in_their_folder_and_the_secret_is_kept_as_passwords_are(tmp_path: Path) -> None:
    client = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd",
    }
    links = LinkSecrets(LinkPolicy(files=str(tmp_path), variables=("PW",)), environment={"PW": "hush"})
    with pytest.raises(ValueError, match=r"^sasl\.oauthbearer\.token\.endpoint\.url: /etc/passwd is not in the folder"):
        links.accepted("west", client)
    client |= {"sasl.oauthbearer.token.endpoint.url": "https://h/t", "sasl.oauthbearer.client.id": "me"}
    with pytest.raises(ValueError, match=r"^sasl\.oauthbearer\.client\.secret: would be stored where others read it"):
        links.accepted("west", {**client, "sasl.oauthbearer.client.secret": "hush"})
    given = links.accepted("west", {**client, "sasl.oauthbearer.client.secret": "${env:PW}"})
    assert links.config("west", given).oauth_secret() == "hush"
    assert shown({"sasl.oauthbearer.client.secret": "hush"}) == {"sasl.oauthbearer.client.secret": REDACTED}
