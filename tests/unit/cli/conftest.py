from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from gateway.cli.main import app
from tests.support.control.control_plane import SOURCE, Plane
from tests.support.control.control_server import ControlServer

Run = Callable[..., Result]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlServer]:
    with capture_logs():  # of the server, which would else print in between
        made = ControlServer()
        monkeypatch.setenv("LOCKGATE_URL", made.url)
        yield made
        made.close()


@pytest.fixture
def plane(server: ControlServer) -> Plane:
    return server.plane


@pytest.fixture
def run() -> Run:
    """Runs a command line; checks its exit code."""
    runner = CliRunner()

    def work(*arguments: str, code: int = 0) -> Result:
        result = runner.invoke(app, list(arguments))
        assert result.exit_code == code, (result.output, result.stderr, result.exception)
        return result

    return work


@pytest.fixture
def linked(server: ControlServer, run: Run) -> ControlServer:
    """A server with link `l` and source topics orders, clicks."""
    run("link", "create", "l", "--bootstrap", SOURCE)
    server.plane.source.add("orders", 2, 100)
    server.plane.source.add("clicks", 1, 100)
    return server
