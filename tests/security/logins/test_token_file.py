"""The token that a gateway makes: its owner's alone, found by the command, and on no command line."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from gateway.api.access.token_file import TokenError, default_path, read_or_make, read_token
from gateway.cli.main import app
from gateway.config.api import Api
from gateway.runtime.api_credentials import ApiCredentials
from tests.support.control.control_server import ControlServer


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lockgate" / "api.token"
    before = os.umask(0)
    try:
        token, made = read_or_make(path)
    finally:
        os.umask(before)
    assert made
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_or_make(path) == (token, False)
    assert [each.name for each in path.parent.iterdir()] == ["api.token"]


def test_gateways_that_start_at_once_have_one_token(tmp_path: Path) -> None:
    path, found = tmp_path / "api.token", []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        found.append(read_or_make(path)[0])

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert set(found) == {read_token(path)}


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o644, 0o660])
def test_what_others_can_read_or_change_is_no_secret(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "api.token"
    read_or_make(path)
    path.chmod(mode)
    with pytest.raises(TokenError, match=f"{path} is a secret that others can read or change .*: chmod 600"):
        read_or_make(path)
    with pytest.raises(TokenError):
        ApiCredentials(Api(token_file=str(path)))


def test_what_another_user_made_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all may write, such as /tmp: whoever is first there would know the admin's token."""
    path = tmp_path / "api.token"
    read_or_make(path)
    mine = path.stat().st_uid
    if mine == 0:
        os.chown(path, 4711, 4711)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(TokenError, match="is owned by uid .*, not by you"):
        read_or_make(path)


def test_a_mounted_secret_may_be_its_groups_but_not_everybodys(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sixteen-and-more-characters\n", encoding="ascii")
    path.chmod(0o440)
    assert read_token(path, group=True) == "sixteen-and-more-characters"
    for mode in (0o444, 0o660, 0o644):
        path.chmod(mode)
        with pytest.raises(TokenError, match="chmod o-rwx,g-w"):
            read_token(path, group=True)


@pytest.mark.parametrize("text", ["", "short", "with blanks in the middle of it", "é" * 20, "\n"])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(TokenError, match="a token has") as error:
        read_token(path)
    assert not text.strip() or text not in str(error.value)


def test_where_nothing_can_be_written_says_what_to_set() -> None:
    with pytest.raises(TokenError, match=r"name one that this user may write in api\.token_file"):
        read_or_make(Path("/proc/none/api.token"))


def test_where_it_is() -> None:
    assert default_path({"HOME": "/home/u"}) == Path("/home/u/.local/state/lockgate/api.token")
    assert default_path({"HOME": "/home/u", "XDG_STATE_HOME": "/var/lib"}) == Path("/var/lib/lockgate/api.token")
    assert default_path({"HOME": "/home/u", "XDG_STATE_HOME": "relative"}) == default_path({"HOME": "/home/u"})


# -- the command ---------------------------------------------------------------------------------------------------


class Sent:
    """What commands sent, in place of HTTP."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens: list[str | None] = []
        self.status = 200

        def answer(request: httpx.Request) -> httpx.Response:
            self.tokens.append(request.headers.get("authorization"))
            body = {"data": []} if self.status == 200 else {"error_code": self.status, "message": "not authenticated"}
            return httpx.Response(self.status, json=body)

        monkeypatch.setattr(httpx, "HTTPTransport", lambda **_: httpx.MockTransport(answer))
        real = httpx.Client
        monkeypatch.setattr(
            "gateway.cli.connection.httpx.Client",
            lambda **options: real(**{**options, "transport": httpx.MockTransport(answer)}),
        )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sent:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LOCKGATE_TOKEN_FILE", raising=False)
    return Sent(monkeypatch)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.mark.parametrize("url", ["http://127.0.0.1:8642", "http://localhost:1", "http://[::1]:8642"])
def test_the_command_finds_the_gateways_own(sent: Sent, tmp_path: Path, url: str) -> None:
    token, _ = read_or_make(tmp_path / "state" / "lockgate" / "api.token")
    run("link", "list", "--url", url)
    assert sent.tokens == [f"Bearer {token}"]


@pytest.mark.parametrize("url", ["https://gw.example", "http://gw.example:8642", "http://127.0.0.1.evil.example"])
def test_the_gateways_own_is_not_sent_to_another_machine(sent: Sent, tmp_path: Path, url: str) -> None:
    read_or_make(tmp_path / "state" / "lockgate" / "api.token")
    run("link", "list", "--url", url)
    assert sent.tokens == [None]


def test_a_named_token_goes_by_tls_only(sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t"
    file.write_text("the-operators-own-token", encoding="ascii")
    file.chmod(0o600)
    refused = run("link", "list", "--url", "http://gw.example", "--token-file", str(file), code=2)
    assert "is not sent without TLS to another machine" in refused.stderr
    assert sent.tokens == []
    run("link", "list", "--url", "https://gw.example", "--token-file", str(file))
    monkeypatch.setenv("LOCKGATE_TOKEN_FILE", str(file))
    run("link", "list", "--url", "https://gw.example")
    assert sent.tokens == ["Bearer the-operators-own-token"] * 2
    file.chmod(0o644)
    assert "others can read" in run("link", "list", "--url", "https://gw.example", code=2).stderr
    file.unlink()
    assert "does not exist" in run("link", "list", "--url", "https://gw.example", code=2).stderr


def test_without_a_token_the_command_says_where_it_looked(sent: Sent, tmp_path: Path) -> None:
    sent.status = 401
    refused = run("link", "list", "--url", "http://127.0.0.1:1", code=1)
    path = tmp_path / "state" / "lockgate" / "api.token"
    assert refused.stderr == (
        f"error: not authenticated; there is none in {path}: name its file with --token-file or LOCKGATE_TOKEN_FILE\n"
    )


def test_every_command_that_asks_a_gateway_has_the_options_and_none_takes_a_token() -> None:
    """A token on a command line is in `ps`."""
    for command in (("link", "list"), ("mirror", "list"), ("group", "list"), ("gateway", "list"), ("job", "audit")):
        help_text = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        for option in ("--token-file", "--ca-file", "--certificate-file", "--key-file"):
            assert option in help_text, (command, option)
        assert "--token " not in help_text
        assert "--password" not in help_text
    assert "--token-file" not in CliRunner().invoke(app, ["serve", "--help"]).output


def test_options_of_one_command_are_not_the_next_ones(sent: Sent, tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("the-operators-own-token", encoding="ascii")
    file.chmod(0o600)
    run("link", "list", "--token-file", str(file))
    run("link", "list")
    assert sent.tokens == ["Bearer the-operators-own-token", None]


def test_a_unix_socket_needs_no_token(tmp_path: Path, sent: Sent) -> None:
    read_or_make(tmp_path / "state" / "lockgate" / "api.token")
    (tmp_path / "api.sock").touch()
    run("link", "list", "--url", f"unix:{tmp_path}/api.sock")
    assert sent.tokens == [None]


def test_a_gateway_that_is_not_there_is_still_3(tmp_path: Path) -> None:
    server = ControlServer()
    server.close()
    assert "no answer from" in run("link", "list", "--url", server.url, code=3).stderr
    assert "no answer from" in run("link", "list", "--url", f"unix:{tmp_path}/none.sock", code=3).stderr
