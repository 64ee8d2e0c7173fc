"""`lockgate doctor`: what keeps a gateway from its work, looked at from this machine, with a remedy for each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, fail, fail_all
from gateway.cli.output import Format, Output, dump, line, terminal_width
from gateway.cli.properties import client_properties
from gateway.cli.rules.layout import wrapped
from gateway.doctor.rules.finding import DoctorFinding, Level, worst

if TYPE_CHECKING:
    from gateway.config.settings import Settings

_STYLES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
_INDENT: Final = " " * 6


def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The gateway's settings."),
    ] = None,
    link: Annotated[
        str,
        typer.Option("--link", metavar="NAME", help="Of all sources, this link's.", autocompletion=completion.links),
    ] = "",
    through: Annotated[
        str,
        typer.Option(
            "--through", metavar="HOST:PORT|FILE", help="A listener of the gateway, or a client's properties for it."
        ),
    ] = "",
    source: Annotated[
        str, typer.Option("--source", metavar="HOST:PORT|FILE", help="Source cluster; wins over what links tell.")
    ] = "",
    target: Annotated[
        str, typer.Option("--target", metavar="HOST:PORT|FILE", help="Target cluster; wins over what --config tells.")
    ] = "",
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Rights on it, too; may be repeated."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="Rights on it, too; may be repeated."),
    ] = None,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Look at all that a gateway needs, from this machine to both clusters and through the gateway. Nothing is changed.

    Addresses, DNS, certificates, clocks, rights of both principals, versions, lockgate's own topics, ports, limits,
    quotas; a remedy for each line that is not OK. Exit code 1 when a line is FAIL.
    """
    settings = None if config is None else _settings(config)
    # Imported here: the other commands start in a tenth of the time without the data plane.
    from gateway.cli.doctor.examine import DoctorOptions, examine

    options = DoctorOptions(
        settings=settings,
        url=url,
        link=link,
        source=client_properties(source) or None,
        target=client_properties(target) or None,
        through=client_properties(through) or None,
        topics=tuple(topic or ()),
        groups=tuple(group or ()),
    )
    try:
        findings = examine(options)
    except ValueError as exc:  # a property of --source, --target or --through that is none
        fail(str(exc), USAGE)
    show(findings, output)
    if worst(findings) is Level.FAIL:
        raise typer.Exit(REFUSED)


def _settings(path: Path) -> Settings:
    from gateway.config.file import ConfigError, load

    try:
        return load(path)
    except ConfigError as exc:
        fail_all(exc.problems, USAGE)


def show(findings: Sequence[DoctorFinding], output: Output) -> None:
    """A line for each finding, its remedy below it; then how many there are of each level."""
    if output is not Output.TABLE:
        told = [{name: str(value) for name, value in asdict(finding).items()} for finding in findings]
        dump({"level": str(worst(findings)), "findings": told}, output)
        return
    width = terminal_width()
    whats = max((len(finding.what) for finding in findings), default=0)
    checks = max((len(finding.check) for finding in findings), default=0)
    for finding in findings:
        text = f"{finding.level:<4}  {finding.what:<{whats}}  {finding.check:<{checks}}  {finding.value}"
        for part in wrapped(text, width, _INDENT):
            line(part, _STYLES[finding.level])
        if finding.remedy:
            for part in wrapped(f"{_INDENT}-> {finding.remedy}", width, f"{_INDENT}   "):
                line(part, "")
    counts = Counter(finding.level for finding in findings)
    line(", ".join(f"{counts[level]} {level}" for level in Level), "bold")
