"""`lockgate report`: what a migration has done, for those who were not there; signed, and checked.

The signature is Ed25519 (RFC 8032) over the file's bytes, in a file of its own beside it, 64 bytes. So anybody can
check it without lockgate: `openssl pkeyutl -verify -rawin -pubin -inkey PUBLIC -sigfile FILE.sig -in FILE`. The key is
read from a file on the machine of whoever signs, and never leaves it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.migration.rules.report import audit_of, audit_summary
from gateway.migration.rules.report_page import report_page

app = ApiTyper(help="What a migration has done, as a file: made, signed, checked.", no_args_is_help=True)

SUFFIX: Final = ".sig"
_SIGNATURE_BYTES: Final = 64
_KEY_BYTES: Final = 10_000
_READABLE_BY_OTHERS: Final = 0o077


@app.command("create")
def create(
    migration: Annotated[
        str,
        typer.Option(
            "--migration", metavar="NAME", help="Migration to report on.", autocompletion=completion.migrations
        ),
    ],
    json_file: Annotated[Path, typer.Option("--json", metavar="FILE", help="Write the report there.")],
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page for people, too.")
    ] = None,
    audits: Annotated[
        list[Path] | None,
        typer.Option("--audit", metavar="FILE", help="Include this audit report (JSON); may be repeated."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Private Ed25519 key (PEM): sign each file with it.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Make the report of a migration, and sign it."""
    signer = None if key is None else _private_key(key)
    summaries = [(path, _audit(path)) for path in audits or ()]
    made = ask(url, lambda api: api.get(f"/v3/migrations/{segment(migration)}/report"))
    made["audits"] = [_of_migration(path, made, summary) for path, summary in summaries]
    data = (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()
    files = [(json_file, data)]
    if html_file is not None:
        files.append((html_file, report_page(made, hashlib.sha256(data).hexdigest()).encode()))
    for path, content in files:
        _write(path, content)
        if signer is not None:
            _write(_signature_of(path), signer.sign(content))
        typer.echo(f"{path}{f', {_signature_of(path)}' if signer else ''}")
    if signer is not None:
        typer.echo(f"signed with key {fingerprint(signer.public_key())}")


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The report, JSON or HTML.")],
    public_key: Annotated[Path, typer.Option("--public-key", metavar="FILE", help="Of whoever signed it (PEM).")],
    signature: Annotated[
        Path | None, typer.Option("--signature", metavar="FILE", help="By default the report's name and .sig.")
    ] = None,
) -> None:
    """Check that a report is as it was signed. Exit code 1 when it is not."""
    key, path = _public_key(public_key), signature or _signature_of(file)
    content, signed = _read(file), _read(path)
    if len(signed) != _SIGNATURE_BYTES:
        fail(f"{path}: a signature has {_SIGNATURE_BYTES} bytes, this has {len(signed)}", USAGE)
    try:
        key.verify(signed, content)
    except InvalidSignature:
        fail(f"{file}: it is not as it was signed, or not by the key {fingerprint(key)}", REFUSED)
    typer.echo(f"{file}: as it was signed with key {fingerprint(key)}")


@app.command("key")
def make_key(
    private: Annotated[Path, typer.Argument(metavar="PRIVATE", help="Write the private key there; must not exist.")],
    public: Annotated[Path, typer.Argument(metavar="PUBLIC", help="Write the public key there.")],
) -> None:
    """Make a key to sign reports with."""
    made = Ed25519PrivateKey.generate()
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    except OSError as exc:
        fail(f"{private}: {exc.strerror}", USAGE)
    _write(public, made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    typer.echo(f"key {fingerprint(made.public_key())}: keep {private} private, hand out {public}")


def fingerprint(key: Ed25519PublicKey) -> str:
    """Tells keys apart: the beginning of the SHA-256 of its DER form."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"SHA256:{hashlib.sha256(der).hexdigest()[:32]}"


def _signature_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _audit(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        return audit_summary(json.loads(content), hashlib.sha256(content).hexdigest())
    except ValueError as exc:
        fail(f"{path}: {exc}", USAGE)


def _of_migration(path: Path, made: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    try:
        return audit_of(made, summary)
    except ValueError as exc:
        fail(f"{path}: {exc}", USAGE)


def _private_key(path: Path) -> Ed25519PrivateKey:
    pem = _key_bytes(path)
    try:
        if path.stat().st_mode & _READABLE_BY_OTHERS:
            fail(f"{path}: others may read this private key; chmod 600 {path}", USAGE)
        found = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError):
        fail(f"{path}: no Ed25519 private key in PEM, or one with a passphrase; `lockgate report key` makes one", USAGE)
    if not isinstance(found, Ed25519PrivateKey):
        fail(f"{path}: the key is not of Ed25519; `lockgate report key` makes one", USAGE)
    return found


def _public_key(path: Path) -> Ed25519PublicKey:
    pem = _key_bytes(path)
    try:
        found = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        fail(f"{path}: no public key in PEM", USAGE)
    if not isinstance(found, Ed25519PublicKey):
        fail(f"{path}: the key is not of Ed25519", USAGE)
    return found


def _key_bytes(path: Path) -> bytes:
    content = _read(path)
    if len(content) > _KEY_BYTES:
        fail(f"{path}: this is no key: it has {len(content)} bytes", USAGE)
    return content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", USAGE)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", USAGE)
