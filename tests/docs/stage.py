"""Where the commands of a page are run: two clusters, a folder, a gateway, clients; and what the page's names mean."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from confluent_kafka.admin import AdminClient

from gateway.api.access.token_file import default_path
from gateway.cli.connection import BearerFile
from gateway.devcluster import DevCluster, claim_ports, release_ports
from tests.support.clients.group_lab import Reader
from tests.support.clients.writer import Writer
from tests.support.pages.shown import ROOT
from tests.support.terminal import Terminal, forked, typed
from tests.support.waiting import wait_until

PARTITIONS: Final = 3
LINK: Final = "west"
COMMAND_S: Final = 120.0
"""For how long a command may show nothing."""
_STARTED_S: Final = 60.0
_PORTS: Final = 8
_ASKS: Final = re.compile(r"Type (\S+) to go on: ")
_KAFKAS_OWN: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_PROGRAM: Final = "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[1]])"
_OF_A_SHELL: Final = re.compile(r"[$|<>;&`*?]")
"""A line that has none of these is the same without a shell, but for how long Python takes to begin."""
_WORDS: Final = {"LINK": LINK, "TOPIC": "orders", "GROUP": "billing", "MIGRATION": LINK, "NAME": LINK}
"""What stands for a name of the reader's own."""


class Stage:
    """For one page. Args: its folder, in which the commands run, and the clusters."""

    def __init__(self, folder: Path, source: str, target: str) -> None:
        """`source` and `target`: their `bootstrap.servers`."""
        self.folder = folder
        self.source, self.target = source, target
        self.words = dict(_WORDS)
        self.home: Path | None = None
        self.writers: dict[str, Writer] = {}
        self.readers: dict[str, list[Reader]] = {}
        self._claimed = claim_ports(_PORTS, consecutive=True)
        self._gateway: subprocess.Popen[bytes] | None = None
        self._more: list[int] = []
        self.log = folder / "gateway.log"
        (folder / "configs").mkdir()
        for path in (ROOT / "configs").glob("*.yaml"):
            (folder / "configs" / path.name).write_bytes(path.read_bytes())
        (folder / "programs").mkdir()
        self._configure()
        self.api = httpx.Client(
            base_url=self.url, timeout=60.0, trust_env=False, auth=BearerFile(default_path(os.environ))
        )

    # -- what the names of pages mean ----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Of the gateway's API."""
        return f"http://127.0.0.1:{self._claimed[0]}"

    @property
    def gateway(self) -> str:
        """`bootstrap.servers` of clients that have moved."""
        return f"127.0.0.1:{self._claimed[1]}"

    def meant(self, text: str) -> str:
        """A command, a file or output of a page with the addresses and names that are here in place of the page's."""
        for name, value in (*self._addresses(), *self.words.items()):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?!\w)", value, text)
        return text

    def _addresses(self) -> list[tuple[str, str]]:
        source, target = self.source, self.target
        return [
            ("source-1:9092", source),
            ("west-1:9092", source),
            ("a:9092", source),
            ("b:9092", target),
            ("target-1:9092", target),
            ("127.0.0.1:9192", target),
            ("--port 9092", f"--port {source.split(':')[1]}"),
            ("--port 9192", f"--port {target.split(':')[1]}"),
            ("--replication-factor 3", "--replication-factor 1"),  # clusters of one broker
            ("min.insync.replicas=2", "min.insync.replicas=1"),
        ]

    def takes_clusters_of_its_own(self) -> None:
        """The page starts them: at ports that are free, in a folder for them alone."""
        self._more = claim_ports(20, consecutive=True)
        self.source, self.target = (f"127.0.0.1:{self._more[at]}" for at in (0, 10))
        release_ports(self._more)
        self.home = self.folder / "home"
        self.home.mkdir()
        (self.home / "brokers").symlink_to(ROOT / "build" / "brokers")
        self._configure()

    def _configure(self) -> None:
        """The least settings that a page knows, with the target and the ports of this test."""
        path = self.folder / "configs" / "minimal.yaml"
        text = self.meant((ROOT / "configs" / "minimal.yaml").read_text(encoding="utf-8"))
        api, bootstrap, base = self._claimed[:3]
        more = {"listener": {"bootstrap_port": bootstrap, "base_port": base}, "api": {"port": api}}
        path.write_text(text + yaml.safe_dump(more), encoding="utf-8")

    # -- commands ------------------------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """Of every command."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKGATE_", "COLUMNS"))}
        path = f"{self.folder / 'programs'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        ours |= {"PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb", "LOCKGATE_URL": self.url}
        return ours if self.home is None else {**ours, "LOCKGATE_DEV_HOME": str(self.home)}

    def type_it(self, line: str, until: str | None = None) -> tuple[int, str]:
        """Type a line, and each word that it asks for. Its exit code and what was shown.

        Args:
            until: words; when they are shown, Ctrl-C ends it.
        """
        meant = self.meant(line)
        place: dict[str, Any] = {"folder": self.folder, "environment": self.environment}
        if meant.startswith("lockgate ") and not _OF_A_SHELL.search(meant):
            terminal = forked(*shlex.split(meant)[1:], wait_s=COMMAND_S, **place)
        else:
            terminal = typed(_PROGRAM, meant, wait_s=COMMAND_S, **place)
        try:
            return self._followed(terminal, until)
        finally:
            if terminal.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(terminal.process.pid, signal.SIGKILL)
                terminal.process.wait()

    def _followed(self, terminal: Terminal, until: str | None) -> tuple[int, str]:
        answered = 0
        while terminal.read():
            asked = _ASKS.findall(terminal.text)
            if len(asked) > answered:
                terminal.type_line(asked[answered])
                answered += 1
            if until is not None and until in terminal.text:
                terminal.press_ctrl_c()
                until = None
        ran = terminal.end()
        return ran.code, "\n".join(line.rsplit("\r", 1)[-1] for line in ran.shown.split("\n"))

    def leave_running(self, line: str) -> None:
        """Begin what serves, and wait until it does."""
        self._gateway = self._begun(line, self.log)
        wait_until(self._serves, _STARTED_S, what="the gateway's /ready")

    def _begun(self, line: str, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                ["sh", "-c", f"exec {self.meant(line)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _serves(self) -> bool:
        assert self._gateway is not None
        assert self._gateway.poll() is None, f"the gateway has ended:\n{self.log.read_text(errors='replace')[-2000:]}"
        try:
            return self.api.get("/ready").is_success
        except httpx.TransportError:
            return False

    @property
    def is_served(self) -> bool:
        """Whether the page's gateway was started."""
        return self._gateway is not None

    def asked(self, path: str) -> Any:
        """What the gateway's API says; an empty object while it does not."""
        answer = self.api.get(path)
        return answer.json() if answer.is_success else {}

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End what runs, and leave both clusters empty."""
        for reader in [one for readers in self.readers.values() for one in readers]:
            reader.stop()
        for writer in self.writers.values():
            writer.stop()
        if self._gateway is not None:
            self._gateway.terminate()
            try:
                self._gateway.wait(30)
            except subprocess.TimeoutExpired:
                self._gateway.kill()
                self._gateway.wait(10)
        self.api.close()
        release_ports(self._claimed)
        if self.home is None:
            for bootstrap in (self.source, self.target):
                empty(bootstrap)
        else:
            for path in (self.home / "clusters").glob("*/cluster.json"):
                DevCluster.open(path.parent.name, parent=self.home / "clusters").kill()


def empty(bootstrap: str) -> None:
    """Delete all topics but Kafka's own, and all groups of a cluster, and wait until they are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def topics() -> list[str]:
        return [name for name in admin.list_topics(timeout=30).topics if name not in _KAFKAS_OWN]

    def groups() -> list[str]:
        found = admin.list_consumer_groups().result(30)
        return [one.group_id for one in found.valid or []]

    def gone(names: Callable[[], list[str]], delete: Callable[[list[str]], dict[str, Any]]) -> bool:
        left = names()
        for future in delete(left).values() if left else ():
            with suppress(Exception):  # asked again, or gone by itself
                future.result(30)
        return not left

    wait_until(lambda: gone(groups, admin.delete_consumer_groups), 60.0, what="no groups")
    wait_until(lambda: gone(topics, admin.delete_topics), 60.0, what="no topics")
