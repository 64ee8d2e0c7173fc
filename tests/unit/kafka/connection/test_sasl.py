"""SCRAM against the examples of RFC 5802's successors and against a server's side written from the RFC."""

import base64
import hashlib
import hmac

import pytest

from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.kafka.connection.sasl import Plain, Scram, mechanism

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
