"""What takes longer than two seconds says so."""

from __future__ import annotations

import socket
import threading

import pytest

from gateway.cli import progress
from gateway.cli.progress import ProgressView, patience


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is."""
    now = [100.0]
    monkeypatch.setattr(progress, "_now", lambda: now[0])
    return now


def test_in_a_pipe_a_line_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView("promoting") as view:
        for second in range(25):
            clock[0] = 100.0 + second
            view.show(1, 3, "lag 500, 1.5 MB/s", left=1000 - 10 * second)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "promoting: 1 of 3, lag 500, 1.5 MB/s, about 1 min 38 s to go",
        "promoting: 1 of 3, lag 500, 1.5 MB/s, about 1 min 28 s to go",
        "promoting: 1 of 3, lag 500, 1.5 MB/s, about 1 min 18 s to go",
    ]


def test_what_is_quick_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView("copying") as view, patience("no answer yet"):
        view.show(1, 1, "")
    with patience("no answer yet"):
        pass
    assert capsys.readouterr() == ("", "")


def test_the_outer_of_two_waits_tells(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for, and not only that an answer is."""
    told: list[str] = []
    monkeypatch.setattr(progress, "_tell", lambda what, done: told.append(what))
    with patience("no answer from the source"), patience("no answer yet"):
        pass
    assert told == ["no answer from the source"]


def test_an_answer_that_is_long_in_coming(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers only when it has been said that there is no answer yet."""
    told = threading.Event()
    real = progress._tell

    def tell(what: str, done: threading.Event) -> None:
        told.set()
        real(what, done)

    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.01)
    monkeypatch.setattr(progress, "_tell", tell)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            connection = listening.accept()[0]
            assert told.wait(10)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        said = run("link", "list", "--url", f"http://127.0.0.1:{listening.getsockname()[1]}", code=3).stderr
        thread.join(10)
    assert said.startswith("no answer yet from http://127.0.0.1:")
