"""`lockgate support-bundle`: what somebody needs who is to find out what is wrong, in one file, without a secret.

What REST answers has no secrets in it. A settings file and a log may have some, so both are gone through: of the
settings what is secret by its name is left out, and every text of the bundle loses whatever this machine knows to be a
secret (`secrets_in.py`). The file is its owner's alone.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
import yaml

from gateway.cli.api import DEFAULT_URL, REFUSED, Api, Refused, Url, fail, segment
from gateway.cli.connection import USAGE, client, token_sent
from gateway.cli.output import Format, Output, dump
from gateway.cli.secrets_in import scrubbed, secrets_in, shown_settings

_LOG_BYTES: Final = 8 << 20
_SETTINGS_BYTES: Final = 1 << 20
_MODE: Final = 0o600
_LINKS: Final = 200  # described one by one
_PLAIN: Final = {"health": "/health", "ready": "/ready"}
_LISTS: Final = {
    "status": "/v3/status",
    "links": "/v3/links",
    "gateways": "/v3/gateways",
    "migrations": "/v3/migrations",
}
_OF_A_LINK: Final = ("", "/mirrors", "/groups")


def support_bundle(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The gateway's settings; what is secret in it is left out.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="The gateway's log; its last 8 MiB are taken.", metavar="FILE")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The bundle; default: lockgate-support-TIME.tar.gz here.", metavar="FILE"),
    ] = None,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Collect versions, settings without secrets, all that `describe` shows, metrics and the log's end in one file."""
    settings = _settings(config)
    known = secrets_in(settings, os.environ, token_sent(url))
    parts = {
        "versions.json": _json(_versions()),
        **({} if config is None else {"settings.yaml": yaml.safe_dump(shown_settings(settings), sort_keys=False)}),
        **{f"rest/{name}": text for name, text in _answers(url)},
        **({} if log is None else {"gateway.log": _end_of(log)}),
    }
    path = to or Path(time.strftime("lockgate-support-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime()))
    _write(path, {name: scrubbed(text, known) for name, text in parts.items()})
    if output is not Output.TABLE:
        dump({"file": str(path), "parts": sorted(parts)}, output)
        return
    typer.echo(f"wrote {path}: {', '.join(sorted(parts))}")


def _versions() -> dict[str, Any]:
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "packages": {found.name: found.version for found in sorted(metadata.distributions(), key=lambda one: one.name)},
    }


def _settings(config: Path | None) -> dict[str, Any]:
    """As they are written, `${VARIABLE}` included."""
    if config is None:
        return {}
    try:
        with config.open("rb") as file:
            found = yaml.safe_load(file.read(_SETTINGS_BYTES))
    except OSError as exc:
        fail(f"--config: {config}: {exc.strerror}", USAGE)
    except (yaml.YAMLError, UnicodeDecodeError):
        fail(f"--config: {config} is not YAML", USAGE)
    return found if isinstance(found, dict) else {}


def _end_of(log: Path) -> str:
    """A line that was cut is left out: half a secret would not be known as one."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            data = file.read(_LOG_BYTES)
    except OSError as exc:
        fail(f"--log: {log}: {exc.strerror}", USAGE)
    text = data.decode("utf-8", "replace")
    return text if size <= _LOG_BYTES else text.partition("\n")[2]


def _answers(url: str) -> Iterator[tuple[str, str]]:
    """What the gateway says; in the place of what it does not say, why."""
    api = Api(url)
    for name, path in _PLAIN.items():
        yield f"{name}.json", _text_of(url, path)
    yield "metrics.txt", _text_of(url, "/metrics")
    listed: Any = {}
    for name, path in _LISTS.items():
        answer = _answer_of(lambda path=path: api.list(path) if path != "/v3/status" else api.get(path))  # type: ignore[misc]
        listed = answer if name == "links" else listed
        yield f"{name}.json", _json(answer)
    for link in (listed.get("data") or ())[:_LINKS]:
        where = f"/v3/links/{segment(link['link_name'])}"
        for part in _OF_A_LINK:
            call = api.list if part else api.get
            answer = _answer_of(lambda call=call, path=where + part: call(path))  # type: ignore[misc]
            yield f"links/{segment(link['link_name'])}{part or '/link'}.json", _json(answer)


def _answer_of(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Refused as exc:
        return {"refused": str(exc)}


def _text_of(url: str, path: str) -> str:
    try:
        with client(url) as connection:
            return connection.get(path).text
    except httpx.TransportError as exc:
        return f"no answer: {exc}\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _write(path: Path, parts: dict[str, str]) -> None:
    """Its owner's alone from its first byte on; no file that is there is written over."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", REFUSED)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in parts.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"lockgate-support/{name}")
            entry.size, entry.mode, entry.mtime = len(data), _MODE, int(time.time())
            bundle.addfile(entry, io.BytesIO(data))
