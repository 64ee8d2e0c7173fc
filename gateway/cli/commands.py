"""What commands have in common, added to each by `ApiTyper`, so that none of them names it.

One that asks a gateway has the options of a connection (`connection.py`); one that shows something, `--watch`
(`watch.py`); a list, `-o wide|name`, `--columns` and `--sort` (`output.py`). Where one link is meant, it is the only
one that there is, unless `--link` or LOCKGATE_LINK names it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from gateway.cli import output, watch
from gateway.cli.api import USAGE, ask, fail
from gateway.cli.completion import LINK_VARIABLE
from gateway.cli.connection import OPTIONS, connected


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """A flag takes no value, so help shows no type behind it."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class ShownCommand(TyperCommand):
    """A command, as help shows it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As Typer's."""
        return _without_types_of_flags(super().get_params(ctx))


class ShownGroup(TyperGroup):
    """Commands under one name, as help shows them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As Typer's."""
        return _without_types_of_flags(super().get_params(ctx))


class ApiTyper(typer.Typer):
    """Commands; those with a parameter `url` get the options of a connection, and what their names call for."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"cls": ShownGroup, **kwargs})

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        """As Typer's."""
        register = super().command(*args, **{"cls": ShownCommand, **kwargs})

        def add(function: Any) -> Any:
            name = kwargs.get("name") or (args[0] if args else function.__name__)
            told = function
            if "url" in inspect.signature(function).parameters:
                told = _linked(function) if _needs_link(function) else function
                told = _viewed(told) if name in output.LISTS else told
                told = _connected(_watched(told) if name in watch.WATCHED else told)
            register(told)
            return function

        return add


def _viewed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `-o wide|name`, `--columns` and `--sort` more."""

    @functools.wraps(function)
    def command(**given: Any) -> None:
        asked = {name: given.pop(name) for name in output.VIEW_OPTIONS}
        with output.viewed(**asked) as form:
            function(**given, output=form)

    return _with_options(command, function, output.VIEW_OPTIONS, output.VIEW_DEFAULTS)


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `--watch` more."""

    @functools.wraps(function)
    def command(**given: Any) -> None:
        asked = {name: given.pop(name) for name in watch.OPTIONS}
        watch.shown(lambda: function(**given), str(given.get("output", "")), **asked)

    return _with_options(command, function, watch.OPTIONS, watch.DEFAULTS)


def _connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options more."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        with connected(**{name: given.pop(name) for name in OPTIONS}):
            return function(**given)

    return _with_options(command, function, OPTIONS, {})


def _needs_link(function: Callable[..., Any]) -> bool:
    link = inspect.signature(function).parameters.get("link")
    return link is not None and link.default is inspect.Parameter.empty


def _linked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command of one link, which need not be named where there is no other."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        given["link"] = given["link"] or _only_link(given["url"])
        return function(**given)

    return _with_options(command, function, {}, {"link": ""})


def _only_link(url: str) -> str:
    names = sorted(one["link_name"] for one in ask(url, lambda api: api.get("/v3/links"))["data"])
    if not names:
        fail("there is no link: lockgate link create NAME --bootstrap HOST:PORT makes one", USAGE)
    if len(names) > 1:
        fail(f"there are {len(names)} links, name one with --link or {LINK_VARIABLE}: {', '.join(names)}", USAGE)
    return str(names[0])


def _with_options(
    command: Any, function: Callable[..., Any], options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Callable[..., Any]:
    """`command`, which takes what `function` takes and these options, shows both to Typer. An option that `function`
    has, too, is this one."""
    hints = {**get_type_hints(function, include_extras=True), **options}
    signature = inspect.signature(function)
    own = [
        one.replace(
            annotation=hints[name], default=defaults.get(name, one.default), kind=inspect.Parameter.KEYWORD_ONLY
        )
        for name, one in signature.parameters.items()
    ]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
        for name, kind in options.items()
        if name not in signature.parameters
    ]
    command.__signature__ = signature.replace(parameters=[*own, *more])
    command.__annotations__ = hints
    shown: Callable[..., Any] = command
    return shown
