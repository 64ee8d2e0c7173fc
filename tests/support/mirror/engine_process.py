"""A process that runs nothing but the mirror engine, to be killed.

python -m tests.support.mirror.engine_process SOURCE TARGET RECORD.json BYTES_PER_SECOND
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Self

import uvloop

from gateway.state.codec import values_of
from gateway.state.records import MirrorMode, MirrorRecord, PartitionStart
from tests.support.control.mirror_records import mirror_record
from tests.support.mirror.mirror_lab import mirror_lab
from tests.support.waiting import wait_until_async


class EngineProcess:
    """Started on entry, killed with SIGKILL on exit."""

    def __init__(self, source: str, target: str, record: MirrorRecord, folder: Path, *, bytes_per_s: int = 0) -> None:
        self._file = folder / f"{record.mirror_topic}.json"
        fields = values_of(record)
        plain = {
            name: fields[name]
            for name in ("link", "source_topic", "mirror_topic", "mirror_id", "source_topic_id", "mode", "compacted")
        }
        starts = [[start.source_start, start.pad_to] for start in record.starts]
        self._file.write_text(json.dumps({**plain, "starts": starts}))
        module = "tests.support.mirror.engine_process"
        self._arguments = [sys.executable, "-m", module, source, target, str(self._file), str(bytes_per_s)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def wait_until_copied(self, records: int, *, or_all: bool = False) -> None:
        """Wait until it has copied so many; 0: until it runs at all. `or_all`: or all that there is."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            copied, left = line.split()
            if int(copied) >= records or (or_all and int(left) == 0):
                return
        raise AssertionError("the engine stopped by itself")


def read_record(file: Path) -> MirrorRecord:
    fields = json.loads(file.read_text())
    fields["mode"] = MirrorMode(fields["mode"])
    fields["starts"] = tuple(PartitionStart(*start) for start in fields["starts"])
    return mirror_record(**fields)


async def run(source: str, target: str, record: MirrorRecord, bytes_per_s: str) -> None:
    async with mirror_lab(source, target, configs={"throttle.bytes.per.second": bytes_per_s}) as lab:
        lab.engine.start_mirror(record)

        def report() -> bool:
            now = lab.status(record.mirror_topic)
            left = -1 if any(one.lag is None for one in now) else sum(one.lag or 0 for one in now)
            print(sum(one.records_total for one in now), left, flush=True)  # noqa: T201
            return bool(lab.events.failures)

        await wait_until_async(report, deadline=600.0)
        sys.exit(f"failed: {lab.events.failures}")


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], sys.argv[2], read_record(Path(sys.argv[3])), sys.argv[4]))
