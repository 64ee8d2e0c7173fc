"""Who does not answer, and who answers something else."""

from __future__ import annotations

import http.server
import socket
import threading

import pytest


def test_nobody_there_is_3(run, unused_port):
    result = run("link", "list", "--url", f"http://127.0.0.1:{unused_port()}", code=3)

    assert result.stdout == ""
    assert result.stderr.startswith("error: no answer from http://127.0.0.1:")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("nonsense", ""),
        ("ftp://x", ""),
        ("http://", ""),
        ("http://h:port", ""),
        ("localhost:8642", "; write http://localhost:8642"),
        ("10.0.0.7:8642/v3", "; write http://10.0.0.7:8642/v3"),
    ],
)
def test_a_url_that_is_none_is_2(run, url, meant):
    said = run("link", "list", "--url", url, code=2).stderr
    assert said.startswith(f"error: --url {url}: ")
    assert said.endswith(f"{meant}\n")
    assert said.count("\n") == 1


def test_a_url_with_a_path_too_many_is_3(server, run):
    said = run("link", "list", "--url", f"{server.url}/v3", code=3).stderr
    assert said == f"error: no lockgate API at {server.url}/v3: it does not know /v3/links; write {server.url}\n"


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *_: object) -> None:
        pass


def test_a_web_server_is_no_gateway(run):
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as page:
        thread = threading.Thread(target=page.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{page.server_port}"
        result = run("link", "list", "--url", url, code=3)
        thread.join(10)

    assert result.stderr == f"error: {url} is not a lockgate API: HTTP 200 without JSON\n"


def test_a_connection_that_is_cut_is_3(run):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            listening.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        run("link", "list", "--url", f"http://127.0.0.1:{listening.getsockname()[1]}", code=3)
        thread.join(10)


def test_the_environment_names_the_url(server, run, monkeypatch):
    assert run("link", "list").stdout == "no links\n"
    monkeypatch.setenv("LOCKGATE_URL", server.url + "/")
    assert run("link", "list").stdout == "no links\n"
