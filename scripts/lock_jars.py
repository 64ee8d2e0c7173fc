"""Writes `gateway/devcluster/locks/VERSION.lock`: the jars that Maven has resolved, by their paths in a repository.

    python scripts/lock_jars.py [VERSION …]

The jars of each version are resolved first (`lockgate dev jars`); which group a jar is of, Maven's local repository
says (`~/.m2/repository`). A line is a path and the SHA-256 of the file; no line says which repository has it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final

from gateway.devcluster import KAFKA_VERSIONS, ensure_jars

LOCKS: Final = Path(__file__).parents[1] / "gateway" / "devcluster" / "locks"
LOCAL: Final = Path.home() / ".m2" / "repository"


def locked(folder: Path, repository: Path) -> str:
    """The text of a lock: of each jar in the folder its path in the repository, and its SHA-256.

    Raises:
        LookupError: the repository has no such jar, or another one of that name.
    """
    paths = {path.name: path for path in repository.rglob("*.jar")}
    lines = []
    for jar in sorted(folder.glob("*.jar")):
        found = paths.get(jar.name)
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found is None or hashlib.sha256(found.read_bytes()).hexdigest() != digest:
            raise LookupError(f"{jar.name} is not in Maven's local repository: remove {folder}, and resolve it again")
        lines.append(f"{found.relative_to(repository).as_posix()} {digest}\n")
    return "".join(lines)


def main() -> None:
    """Of each version that was named; of all of them when none was."""
    LOCKS.mkdir(exist_ok=True)
    for version in sys.argv[1:] or KAFKA_VERSIONS:
        (LOCKS / f"{version}.lock").write_text(locked(ensure_jars(version), LOCAL), encoding="ascii")


if __name__ == "__main__":
    main()
