"""A job's talk with the gateway: what it is told of a link, and what it reports."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import httpx
import typer

from gateway.cli.api import segment
from gateway.cli.connection import client
from gateway.jobs.catch_up_ends import Progress
from gateway.jobs.errors import JobFailed
from gateway.jobs.heartbeat import Heartbeat
from gateway.jobs.lost_records import LostRange, LostRecordLog

_HEARTBEAT_TIMEOUT_S: Final = 3.0
_TRIES: Final = 8
_PAUSE_S: Final = 4.0
_TIMEOUT_S: Final = 60.0  # the first report waits for the engine's appends in flight


def new_job_id() -> str:
    """Tells people which process, where and since when."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{socket.gethostname()}-{os.getpid()}"


def ask_again(url: str, path: str, *, pause: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """The gateway's answer to a question in the midst of a job, whose work must not be lost for it.

    One that is out of reach, or does not lead yet, may be restarting: it is asked `_TRIES` times.

    Raises:
        JobFailed: it refuses, or is still out of reach; in one line.
    """
    why = ""
    for number in range(_TRIES):
        if number:
            pause(_PAUSE_S)
        try:
            with client(url) as connection:
                answer = connection.get(path, timeout=_TIMEOUT_S)
        except httpx.TransportError as exc:
            why = str(exc) or type(exc).__name__
        except typer.Exit:  # it has said why: no socket there, or no token
            why = f"{url} cannot be asked"
        else:
            if answer.is_success:
                return _object(answer)
            if answer.is_client_error:
                raise JobFailed(f"the gateway refuses: {_message(answer)}")
            why = _message(answer)
    raise JobFailed(f"no answer from the gateway, asked {_TRIES} times: {why}")


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise JobFailed(f"{answer.url} is not a lockgate API: HTTP {answer.status_code} without JSON")
    return body


class JobReports:
    """Reports one job to the gateway, so that it leaves the topics to it and shows the progress.

    A gateway that is out of reach for a moment stops nothing: it may be restarting, and then hears of the job again.
    One that has not heard for a lease copies by itself: then the job ends (`gateway.jobs.heartbeat`).

    Attributes:
        heartbeat: from `begin` to `end`.
        lost: what the job goes on without. Told with the next heartbeat, and with the last report.
    """

    def __init__(self, url: str, link: str, job: str, names: Mapping[str, str], *, by: str = "spark") -> None:
        """`names`: of the mirror topics, by source topic."""
        self._client = client(url)
        self._path = f"/v3/links/{segment(link)}/catch-up/{segment(job)}"
        self._names = names
        self._by = by
        self._progress: Mapping[str, Progress] = {}
        self.heartbeat = Heartbeat(self._heartbeat)
        self.lost = LostRecordLog()

    def begin(self, topics: list[str]) -> None:
        """Before anything is appended. Raises JobFailed when the gateway refuses, or is out of reach."""
        self._progress = dict.fromkeys(topics, Progress())
        self._put("running", self._progress)
        self.heartbeat.start()

    def progress(self, topics: Mapping[str, Progress]) -> None:
        """What the next heartbeat tells. Raises JobFailed when the job must not go on."""
        self._progress = {**self._progress, **topics}
        self.heartbeat.check()

    def _heartbeat(self) -> bool:
        return self.lost.tell(
            lambda lost: self._put("running", self._progress, lost, must=False, timeout_s=_HEARTBEAT_TIMEOUT_S)
        )

    def end(self, state: str) -> None:
        """`done` or `failed`: the engine goes on. Never raises: without it the gateway notices by itself."""
        self.heartbeat.stop()
        try:
            self.lost.tell(lambda lost: self._put(state, {}, lost, must=False))
        except JobFailed:
            return
        finally:
            self._client.close()

    def _put(
        self,
        state: str,
        topics: Mapping[str, Progress],
        lost: Sequence[LostRange] = (),
        *,
        must: bool = True,
        timeout_s: float = _TIMEOUT_S,
    ) -> bool:
        """True when the gateway has taken it."""
        shown = [{"mirror_topic_name": name, **asdict(one), "eta_s": one.eta_s} for name, one in topics.items()]
        body = {"by": self._by, "state": state, "topics": shown, "lost": list(map(self._told, lost))}
        try:
            answer = self._client.put(self._path, json=body, timeout=timeout_s)
        except httpx.TransportError as exc:
            if must:
                raise JobFailed(f"no answer from the gateway: {str(exc) or type(exc).__name__}") from exc
            return False
        if answer.is_client_error or (must and answer.is_error):
            raise JobFailed(f"the gateway refuses: {_message(answer)}")
        return answer.is_success

    def _told(self, lost: LostRange) -> dict[str, object]:
        """As `gateway.api.mirrors.catch_up_models.LostData`."""
        return {
            "mirror_topic_name": self._names[lost.topic],
            "partition": lost.partition,
            "first": lost.first,
            "following": lost.following,
        }


def _message(answer: httpx.Response) -> str:
    try:
        body: Any = answer.json()
    except ValueError:
        return f"HTTP {answer.status_code}"
    return str(body.get("message", body)) if isinstance(body, dict) else str(body)
