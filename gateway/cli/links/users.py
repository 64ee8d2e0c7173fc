"""`lockgate users`: SCRAM users of a link's source, and new secrets for those that the target lacks.

A secret is never an argument. It is read by the gateway (a reference), or here (a file, a command for each user), where
it is salted: then the gateway gets the salted password and not the password.
"""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link
from gateway.cli.output import Format, Output, console, dump
from gateway.kafka.rules.scram import SALT_BYTES, ScramKey, ScramMechanism, salted
from gateway.operations.secrets.rules.properties_file import properties
from gateway.telemetry.printable import printable

app = ApiTyper(help="SCRAM users that the target lacks.", no_args_is_help=True)

USER_VARIABLE = "LOCKGATE_USER"
_COMMAND_S = 30.0
_LONGEST = 65_536
_SIGNS = {"MISSING": ("+", "green"), "CREATED": ("+", "green"), "PRESENT": ("=", ""), "NOT_NEEDED": ("=", "")}
_FAILED = ("NO_SECRET", "REFUSED")

IdentityToken = Annotated[
    list[str] | None,
    typer.Option(
        "--identity-token",
        metavar="PATTERN",
        help="Users that come by a listener with identity: token, and need no secret; `*` for any; may be repeated.",
    ),
]


@app.callback()
def root() -> None:
    """SCRAM users that the target lacks."""


@app.command("plan")
def plan(
    link: Link, identity_token: IdentityToken = None, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Show which SCRAM users of the source the target lacks, and what no command copies. Nothing is changed."""
    answer = _plan(link, identity_token or [], url)
    if output is not Output.TABLE:
        dump(answer, output)
        return
    _rows(answer)
    for one in answer["not_copied"]:
        values = f" {one['source_value'] or '-'} -> {one['target_value'] or '-'}" if one["name"] else ""
        _line(f"! not copied: {one['kind']} {one['name']}{values}: {one['detail']}", "yellow")
    _end(answer)


@app.command("apply")
def apply(
    link: Link,
    reference: Annotated[
        str,
        typer.Option(
            "--secrets",
            metavar="REFERENCE",
            help="Where the gateway has the secrets: '${file:/path:*}', '${dir:/path:*}' or '${env:PREFIX_*}'; * is "
            "the user's name.",
        ),
    ] = "",
    secrets_file: Annotated[
        Path | None,
        typer.Option("--secrets-file", metavar="FILE", help="A file of this machine: USER=SECRET a line, mode 0600."),
    ] = None,
    command: Annotated[
        str,
        typer.Option(
            "--secret-command",
            metavar="COMMAND",
            help=f"Prints the secret of the user in {USER_VARIABLE}; run for each, without a shell.",
        ),
    ] = "",
    users: Annotated[list[str] | None, typer.Option("--user", help="Only this one; may be repeated.")] = None,
    identity_token: IdentityToken = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the secrets and say who would be made; make nobody.")
    ] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Make the SCRAM users that the target lacks, with new secrets. Those that are there stay as they are.

    Exit code 1 when one of them was not made.
    """
    if sum(map(bool, (reference, secrets_file, command))) != 1:
        fail("say where the secrets are: one of --secrets, --secrets-file and --secret-command", USAGE)
    body: dict[str, Any] = {"users": users or [], "identity_token": identity_token or [], "secrets": reference}
    if not reference:
        secret_of = _in_file(secrets_file) if secrets_file else _by_command(command)
        body["credentials"] = _salted(_plan(link, identity_token or [], url), users or [], secret_of)
    query = "?validate_only=true" if dry_run else ""
    answer = ask(url, lambda api: api.post(f"/v3/links/{segment(link)}/users:apply{query}", body))
    if output is not Output.TABLE:
        dump(answer, output)
    else:
        _rows(answer)
        _end(answer)
    if any(answer["counts"][state] for state in _FAILED):
        raise typer.Exit(REFUSED)


def _plan(link: str, identity_token: list[str], url: str) -> Any:
    params = {"identity_token": identity_token}
    return ask(url, lambda api: api.get(f"/v3/links/{segment(link)}/user-plan", params))


def _salted(answer: Any, users: list[str], secret_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """A credential for each that is missing and has a secret; who has none is told by the gateway's answer."""
    found, known = [], dict[str, str]()
    for row in answer["data"]:
        if row["state"] != "MISSING" or (users and row["name"] not in users):
            continue
        name = row["name"]
        if name not in known:
            known[name] = secret_of(name)
        if not known[name]:
            continue
        key = ScramKey(name, ScramMechanism(row["mechanism"]))
        try:
            made = salted(key, row["iterations"], secrets.token_bytes(SALT_BYTES), known[name])
        except ValueError as exc:
            fail(f"{name}: {exc}", USAGE)
        found.append(
            {
                "name": name,
                "mechanism": key.mechanism.value,
                "iterations": made.iterations,
                "salt": base64.b64encode(made.salt).decode(),
                "salted_password": base64.b64encode(made.salted_password).decode(),
            }
        )
    return found


def _in_file(path: Path) -> Callable[[str], str]:
    try:
        if path.stat().st_mode & 0o077:
            fail(f"{path}: others can read it; chmod 600 {path}", USAGE)
        found = properties(path.read_text(encoding="utf-8"))
    except OSError as exc:
        fail(f"cannot read {path}: {exc.strerror}", USAGE)
    except UnicodeDecodeError:
        fail(f"{path} is not UTF-8", USAGE)
    return lambda name: found.get(name, "")


def _by_command(command: str) -> Callable[[str], str]:
    try:
        words = shlex.split(command)
    except ValueError as exc:
        fail(f"--secret-command: {exc}", USAGE)

    def secret_of(name: str) -> str:
        try:
            done = subprocess.run(
                words, env={**os.environ, USER_VARIABLE: name}, capture_output=True, timeout=_COMMAND_S, check=False
            )
        except (OSError, ValueError) as exc:
            fail(f"--secret-command: {exc}", USAGE)
        except subprocess.TimeoutExpired:
            fail(f"--secret-command: no end within {_COMMAND_S:g} s for user {name}", USAGE)
        if done.returncode or len(done.stdout) > _LONGEST:
            return ""  # the store has none for this one; others may be there
        try:
            return done.stdout.decode().strip("\r\n")
        except UnicodeDecodeError:
            fail(f"--secret-command: what it prints for user {name} is not UTF-8", USAGE)

    return secret_of


def _rows(answer: Any) -> None:
    for row in answer["data"]:
        sign, style = _SIGNS.get(row["state"], ("!", "red" if row["state"] in _FAILED else "yellow"))
        name = row["name"] if row["target_name"] in ("", row["name"]) else f"{row['name']} -> {row['target_name']}"
        why = f", {row['state_detail']}" if row["state_detail"] else ""
        _line(f"{sign} {name} {row['mechanism']}: {row['state']}{why}", style)
    hidden = sum(answer["counts"].values()) - len(answer["data"])
    if hidden > 0:
        typer.echo(f"  and {hidden} more")


def _end(answer: Any) -> None:
    for note in answer["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(", ".join(f"{many} {state}" for state, many in answer["counts"].items() if many) or "no SCRAM users")


def _line(words: str, style: str) -> None:
    console().print(Text(printable(words), style=style), soft_wrap=True)
