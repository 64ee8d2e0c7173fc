"""Whom a token of OAUTHBEARER lets in, and whom it does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from gateway.proxy.identity.bearer import AGAIN_S, KEPT_S, OLD_S, BearerTokens, Keys
from gateway.proxy.identity.identity import BearerUnchecked, InvalidBearer
from gateway.proxy.identity.jwks import MAX_BYTES, fetcher
from gateway.proxy.rules.bearer_message import bearer_of
from tests.support.identities.certificates import Certificates
from tests.support.identities.https_server import https_server
from tests.support.identities.issuer import AUDIENCE, ISSUER, Issuer

ONE = Issuer()


class Fetched:
    """A JWKS that is fetched, and how often."""

    def __init__(self) -> None:
        self.text: str | Exception = ONE.jwks()
        self.times = 0
        self.now = 0.0
        self.keys = Keys(self.fetch, lambda: self.now)
        self.tokens = BearerTokens(
            self.keys, issuer=ISSUER, audience=AUDIENCE, claim="sub", skew_s=5.0, wall_s=time.time
        )

    async def fetch(self) -> str:
        self.times += 1
        if isinstance(self.text, Exception):
            raise self.text
        return self.text


@pytest.fixture
async def issued() -> Fetched:
    return Fetched()


async def test_a_token_says_who_its_bearer_is_and_for_how_long(issued: Fetched) -> None:
    bearer = await issued.tokens.check(ONE.token("alice"))
    assert bearer.principal == "alice"
    assert 590 < bearer.left_s <= 606
    await issued.tokens.check(ONE.token("bob"))
    assert issued.times == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": -3_600},  # seconds from now
        {"exp": None},
        {"nbf": 3_600},
        {"iss": "https://other.example.org"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 2_000},
    ],
    ids=lambda claims: "-".join(f"{key}={str(value)[:12]}" for key, value in claims.items()),
)
async def test_claims_that_let_nobody_in(issued: Fetched, claims: dict[str, Any]) -> None:
    now = int(time.time())  # not in the parameters: the tests' names must be the same in each worker
    claims = {name: now + value if isinstance(value, int) else value for name, value in claims.items()}
    with pytest.raises(InvalidBearer):
        await issued.tokens.check(ONE.token("alice", **claims))


def _part(value: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _forged(algorithm: str, secret: bytes) -> str:
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600}
    signed = _part({"alg": algorithm, "kid": "one", "typ": "JWT"}) + b"." + _part(claims)
    signature = hmac.digest(secret, signed, hashlib.sha256) if secret else b""
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


async def test_forgeries(issued: Fetched) -> None:
    """Without a signature; with the public key as a shared secret; with a key of the forger's own; cut and mended."""
    other = Issuer()
    good = ONE.token("alice")
    head, claims, signature = good.split(".")
    for forged in (
        _forged("none", b""),
        _forged("HS256", ONE.public_pem()),
        _forged("RS256", b"secret"),
        other.token("alice"),
        f"{head}.{other.token('mallory').split('.')[1]}.{signature}",
        f"{head}.{claims}.",
        head,
        "",
        "é.é.é",
    ):
        with pytest.raises(InvalidBearer):
            await issued.tokens.check(forged)
    await issued.tokens.check(good)


async def test_new_keys_are_fetched_and_nobody_can_have_them_fetched_often(issued: Fetched) -> None:
    two = Issuer("two")
    await issued.tokens.check(ONE.token("alice"))
    issued.text = two.jwks()
    for _ in range(5):
        with pytest.raises(InvalidBearer, match="does not name"):
            await issued.tokens.check(two.token("alice"))
    assert issued.times == 1
    issued.now = AGAIN_S
    await issued.tokens.check(two.token("alice"))
    with pytest.raises(InvalidBearer, match="does not name"):
        await issued.tokens.check(ONE.token("alice"))
    assert issued.times == 2


async def test_a_key_that_is_gone_counts_no_more_after_a_while(issued: Fetched) -> None:
    await issued.tokens.check(ONE.token("alice"))
    issued.text = Issuer("two").jwks()
    issued.now = OLD_S
    with pytest.raises(InvalidBearer, match="does not name"):
        await issued.tokens.check(ONE.token("alice"))


async def test_while_keys_cannot_be_fetched_the_known_ones_count_for_a_day(issued: Fetched) -> None:
    await issued.tokens.check(ONE.token("alice"))
    issued.text = OSError("connection refused")
    issued.now = OLD_S
    await issued.tokens.check(ONE.token("alice"))
    issued.now = KEPT_S
    with pytest.raises(BearerUnchecked, match="connection refused"):
        await issued.tokens.check(ONE.token("alice"))
    issued.text = "no JSON"
    issued.now += AGAIN_S
    with pytest.raises(BearerUnchecked):
        await issued.tokens.check(ONE.token("alice"))


@pytest.mark.parametrize("answer", ["null", "[]", "1", '{"keys": null}', '{"keys": [null]}', "[" * 100_000])
async def test_whatever_an_issuer_answers_the_known_keys_count_and_nobody_hangs(issued: Fetched, answer: str) -> None:
    await issued.tokens.check(ONE.token("alice"))
    issued.text = answer
    issued.now = OLD_S
    await issued.tokens.check(ONE.token("alice"))
    issued.now = KEPT_S
    with pytest.raises(BearerUnchecked, match="there are no keys") as refused:
        await issued.tokens.check(ONE.token("alice"))
    assert len(str(refused.value)) < 300


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
async def test_a_short_rsa_key_is_no_key(issued: Fetched) -> None:
    short = Issuer(bits=1024)
    issued.text = short.jwks()
    with pytest.raises(InvalidBearer, match="does not name"):
        await issued.tokens.check(short.token("alice"))


async def test_nothing_that_a_token_says_is_said_again(issued: Fetched) -> None:
    """Its header is read before its signature is checked, and may be as long as a login request."""
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600}
    long = "x\n" * 20_000
    head = {"alg": "RS256", "kid": "one", "crit": [long], long: 1}
    for token in (
        (_part(head) + b"." + _part(claims) + b".AAAA").decode(),
        ONE.token("alice", iss=long),
        ONE.token("alice", aud=[long]),
        ONE.token("alice", exp=long),
    ):
        with pytest.raises(InvalidBearer) as refused:
            await issued.tokens.check(token)
        assert "xx" not in str(refused.value)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 200


async def test_keys_for_other_uses_and_shared_secrets_are_no_keys(issued: Fetched) -> None:
    issued.text = ONE.jwks(use="enc")
    with pytest.raises(InvalidBearer):
        await issued.tokens.check(ONE.token("alice"))
    issued.now += AGAIN_S
    secret = base64.urlsafe_b64encode(b"secret" * 8).decode().rstrip("=")
    issued.text = json.dumps({"keys": [{"kty": "oct", "kid": "one", "k": secret}]})
    with pytest.raises(InvalidBearer):
        await issued.tokens.check(ONE.token("alice"))


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"n,,\x01auth=Bearer abc.def\x01\x01", ("abc.def", "")),
        (b"n,a=bob,\x01auth=Bearer abc\x01traceId=1\x01\x01", ("abc", "bob")),
        (b"n,a=a=2Cb,\x01host=h\x01auth=bearer abc\x01\x01", ("abc", "a,b")),
    ],
)
def test_messages(message: bytes, found: tuple[str, str]) -> None:
    assert bearer_of(message) == found


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer a",
    ],
)
def test_messages_that_are_none(message: bytes) -> None:
    with pytest.raises(ValueError, match="OAUTHBEARER"):
        bearer_of(message)


class Pages(BaseHTTPRequestHandler):
    """A JWKS, a page that leads elsewhere, one that is too long."""

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ONE.jwks().encode() if self.path == "/keys" else b" " * (MAX_BYTES + 1))

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Certificates]]:
    certificates = Certificates(tmp_path_factory.mktemp("pki"))
    with https_server(Pages, certificates) as url:
        yield url, certificates


async def test_keys_come_by_https_from_who_is_trusted(server: tuple[str, Certificates]) -> None:
    url, certificates = server
    assert await fetcher(f"{url}/keys", certificates.ca)() == ONE.jwks()
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        await fetcher(f"{url}/keys", None)()
    with pytest.raises(OSError, match="HTTP 302"):
        await fetcher(f"{url}/elsewhere", certificates.ca)()
    with pytest.raises(OSError, match="more than"):
        await fetcher(f"{url}/long", certificates.ca)()


async def test_keys_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jwks of one.json"
    path.write_text(ONE.jwks(), encoding="ascii")
    assert await fetcher(path.as_uri(), None)() == ONE.jwks()
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        await fetcher(path.as_uri(), None)()
    with pytest.raises(ValueError, match=r"oauth\.ca"):
        fetcher("https://h/keys", path)
