"""Pages of docs/reference that are written from the code, together with the golden files: `golden.py`.

Commands from the command line's own help, REST from the description that `/openapi.json` serves, options of a link from
the table that reads them, settings from configs/full.yaml. Where a page of docs/ tells of one, its row leads there.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer
from typer._completion_shared import get_completion_script

from gateway.cli.main import app
from gateway.links.rules.update import FIXED
from gateway.state.link_config import with_defaults
from tests.support.pages.golden import FOLDER as GOLDEN
from tests.support.pages.shown import ROOT
from tests.support.pages.site import DOCS

REFERENCE: Final = DOCS / "reference"
_EVERYWHERE: Final = ("help", "output", "url", "token_file", "ca_file", "insecure", "timeout")
_TAGS: Final = {"Confluent": "Under Confluent's paths", "gateway": "The gateway itself"}


_TOLD: Final = {
    "ack": "guides/producers.md",
    "acl.": "guides/access.md",
    "auto.create": "guides/auto-create.md",
    "client.rack": "guides/several-clusters.md",
    "consumer.": "guides/consumers.md",
    "failback.": "guides/going-back.md",
    "groups.auto.promote": "guides/transactions.md",
    "link.allow": "operate/secrets.md",
    "link.client": "operate/secrets.md",
    "link.identity": "operate/secrets.md",
    "link.prefix": "guides/topics.md",
    "mirror.": "guides/topics.md",
    "post.promote": "background/limits.md",
    "promote.less": "guides/topic-configs.md",
    "replication.factor": "guides/topic-configs.md",
    "schema.": "guides/schemas.md",
    "topic.config": "guides/topic-configs.md",
}
"""The beginning of an option -> the page that tells of it. The first one counts."""
_COMMANDS: Final = """# Commands

Read this when you look for a command or an option; [The command line](cli.md) says what they have in common.

Written from `gateway/cli/` by `python -m tests.support.pages.golden`: change it there.

`--url`, `--token-file`, `--ca-file` and `-o` are on every command that asks a gateway, and left out here.
"""
_REST: Final = """# REST

Read this when a program of yours asks a gateway, and you look for the request.

Written from `gateway/api/` by `python -m tests.support.pages.golden`: change it there.

Bodies, fields and examples are at `/docs` of every gateway, and in `/openapi.json`. Who may ask:
[Roles](../operate/api-access.md#roles). `validate_only=true` is the [dry run](cli.md#dry-runs); lists come in
[pages](cli.md#lists); what asking [again](cli.md#asked-again) answers is the same as of commands. What Confluent's
paths have of Confluent's is in [Beside Cluster Linking](../compare/cluster-linking.md#rest).
"""
_OPTIONS: Final = """# Options of a link

Read this when you look for an option of a link, its default, and whether it can be changed while the link runs.

Written from `gateway/state/link_config.py` by `python -m tests.support.pages.golden`: change it there.

Client properties for the source (`bootstrap.servers`, `sasl.*`, `ssl.*`) stand in the same list:
[Links](../guides/links.md). Whose the names are:
[Beside Cluster Linking](../compare/cluster-linking.md#options-of-a-link).

| option | default | can be changed | told in |
|---|---|---|---|
"""
_SETTINGS: Final = """# Settings of a gateway

Read this when you write `gateway.yaml`: every setting with its default, and what it is for.

Written from `configs/full.yaml` by `python -m tests.support.pages.golden`: change it there.

`lockgate serve --config gateway.yaml`. `${NAME}` is the variable of the environment. A key that is not there, a value
that cannot be and a variable that is not set end the start with exit code 2, with file and line.
"""

_MANUAL: Final = """.\\" Written from gateway/cli/ by python -m tests.support.pages.golden: change it there.
.TH LOCKGATE 1 "" "lockgate" "lockgate"
.SH NAME
lockgate \\- move Kafka clients from one cluster to another with one rolling restart and no stop
.SH SYNOPSIS
\\fBlockgate\\fR COMMAND [OPTION]...
.SH DESCRIPTION
A gateway that speaks the Kafka protocol, and the commands of its operators. Commands ask a running gateway at
\\fB\\-\\-url\\fR; each has \\fB\\-\\-help\\fR, and most of them \\fB\\-o\\fR table, json or yaml.
.SH COMMANDS
"""
_MANUAL_END: Final = """.SH EXIT STATUS
.TP
0
Done, or shown.
.TP
1
Refused, with the reason and the remedy on standard error.
.TP
2
Wrong usage: an option, a file, a URL.
.TP
3
No gateway there, or what answers is none.
.SH ENVIRONMENT
.TP
\\fBLOCKGATE_URL\\fR
Where the gateway's API is: http(s)://HOST:PORT or unix:PATH.
.TP
\\fBLOCKGATE_TOKEN_FILE\\fR
The file with the bearer token.
.TP
\\fBLOCKGATE_LINK\\fR
The link that is meant where none is named.
"""


def commands() -> str:
    """Each command, its arguments and its options."""
    parts = [_COMMANDS]
    for path, command in _leaves(typer.main.get_command(app), ()):
        usage = " ".join(["lockgate", *path, *map(_usage, _arguments(command))])
        parts.append(f"## {' '.join(path)}\n\n{_first_paragraph(command.help or '')}\n\n`{usage}`\n")
        rows = [f"| {_flags(one)} | {_told(one)} |\n" for one in _options(command)]
        if rows:
            parts.append("| option | |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def rest() -> str:
    """Each request of the REST API."""
    described = json.loads((GOLDEN / "openapi.json").read_text(encoding="utf-8"))
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["gateway"])[0]
            by_tag[tag].append(f"| {method.upper()} | `{path}` | {_cell(operation.get('summary', ''))} |\n")
    parts = (
        f"## {_TAGS.get(tag, tag.capitalize())}\n\n| | path | |\n|---|---|---|\n{''.join(rows)}"
        for tag, rows in by_tag.items()
    )
    return "\n".join((_REST, *parts))


def link_options() -> str:
    """Each option of a link."""
    rows = []
    for name, default in sorted(with_defaults({}).items()):
        fixed = f"no: {FIXED[name]}" if name in FIXED else "yes"
        value = f"`{default}`" if default else "none"
        rows.append(f"| `{name}` | {_cell(value)} | {_cell(fixed)} | {_told_in(name)} |\n")
    return _OPTIONS + "".join(rows)


def settings() -> str:
    """The commented example with every setting, part by part."""
    text = (ROOT / "configs" / "full.yaml").read_text(encoding="utf-8")
    parts = [_SETTINGS]
    for part in re.split(r"\n\n(?=#|\w)", text.strip("\n"))[1:]:
        found = re.search(r"^(\w+):", part, re.MULTILINE)
        parts.append(f"## {found[1] if found else 'more'}\n\n```yaml\n{part.strip()}\n```\n")
    return "\n".join(parts)


def manual() -> str:
    """The same commands as a page of man(1): what the wheel installs under share/man."""
    parts = [_MANUAL]
    for path, command in _leaves(typer.main.get_command(app), ()):
        usage = " ".join(["lockgate", *path, *map(_usage, _arguments(command))])
        parts.append(f".SS {_roff(usage)}\n{_roff(_first_paragraph(command.help or ''))}\n")
        for one in _options(command):
            flags = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in [*one.opts, *one.secondary_opts])
            value = "" if one.is_flag else f" {_roff(one.metavar or 'VALUE')}"
            parts.append(f".TP\n{flags}{value}\n{_roff(_words_of(one))}\n")
    return "".join((*parts, _MANUAL_END))


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands.md": commands,
    "rest.md": rest,
    "link-options.md": link_options,
    "settings.md": settings,
}


def completion(shell: str) -> str:
    """The script that completes the command line in a shell: bash, zsh or fish."""
    return get_completion_script(prog_name="lockgate", complete_var="_LOCKGATE_COMPLETE", shell=shell) + "\n"


FOLDERS: Final[Mapping[Path, Mapping[str, Callable[[], str]]]] = {
    REFERENCE: PAGES,
    ROOT / "configs" / "man": {"lockgate.1": manual},
    ROOT / "configs" / "completions": {
        "lockgate": partial(completion, "bash"),
        "_lockgate": partial(completion, "zsh"),
        "lockgate.fish": partial(completion, "fish"),
    },
}
"""All that is made from the code: folder -> file -> what it holds."""


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        inner = command.get_command(None, name)
        if not inner.hidden:
            yield from _leaves(inner, (*path, name))


def _arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def _options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and one.name not in _EVERYWHERE]


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _flags(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    return flags if option.is_flag else f"{flags} {option.metavar or 'VALUE'}"


def _words_of(option: Any) -> str:
    return " ".join((option.help or "").split())


def _roff(words: str) -> str:
    """Plain words as troff takes them: no escape, no hyphen that is a dash, no line that begins as a request."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _told(option: Any) -> str:
    words = _cell(_words_of(option))
    default = option.default
    if option.is_flag or default is None or callable(default) or default in ("", (), []):
        return words
    return f"{words} Default: `{getattr(default, 'value', default)}`."


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _told_in(name: str) -> str:
    """A link to the page that tells of an option; the one on links where no other does."""
    page = DOCS / next((told for prefix, told in _TOLD.items() if name.startswith(prefix)), "guides/links.md")
    text = page.read_text(encoding="utf-8")
    title = text.split("\n", 1)[0].removeprefix("# ")
    return f"[{title}]({os.path.relpath(page, REFERENCE)})"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;")
