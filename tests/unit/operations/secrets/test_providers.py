"""What references stand for, and what they may not name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.providers import read
from gateway.operations.secrets.rules.references import reference


def value(text: str, policy: LinkPolicy, **environment: str) -> str:
    found = reference(text)
    assert found is not None
    return read(found, policy, environment)


def test_files(tmp_path: Path) -> None:
    policy = LinkPolicy(str(tmp_path))
    (tmp_path / "link.properties").write_text("# of west\npw = h\\u0075sh\n", encoding="utf-8")
    (tmp_path / "pw").write_text("hu sh\n", encoding="utf-8")
    assert value(f"${{file:{tmp_path}/link.properties:pw}}", policy) == "hush"
    assert value(f"${{dir:{tmp_path}:pw}}", policy) == value(f"${{directory:{tmp_path}:pw}}", policy) == "hu sh"
    with pytest.raises(ValueError, match=r"link.properties has no 'other'"):
        value(f"${{file:{tmp_path}/link.properties:other}}", policy)
    with pytest.raises(ValueError, match="cannot read .*: No such file"):
        value(f"${{dir:{tmp_path}:none}}", policy)


@pytest.mark.parametrize("text", ["${file:%s/../out:pw}", "${dir:%s:../out}", "${dir:%s:link}", "${file:/etc/hosts:x}"])
def test_no_file_outside_the_folder(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "out").write_text("pw=hush", encoding="ascii")
    (folder / "link").symlink_to(tmp_path / "out")
    where = text.replace("%s", str(folder))
    with pytest.raises(ValueError, match="is not in the folder of links' files"):
        value(where, LinkPolicy(str(folder)))
    with pytest.raises(ValueError, match="links may not name files"):
        value(where, LinkPolicy())


def test_no_file_that_never_ends(tmp_path: Path) -> None:
    policy = LinkPolicy(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 65_537)
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, message in {"pipe": "is not a file", "long": "is longer than", "bytes": "is not UTF-8"}.items():
        with pytest.raises(ValueError, match=message):
            value(f"${{dir:{tmp_path}:{name}}}", policy)


def test_variables_of_links_only() -> None:
    policy = LinkPolicy(variables=("LOCKGATE_LINK_*",))
    assert value("${env:LOCKGATE_LINK_PW}", policy, LOCKGATE_LINK_PW="hush") == "hush"
    with pytest.raises(ValueError, match="LOCKGATE_LINK_NO is not set"):
        value("${env:LOCKGATE_LINK_NO}", policy)
    for environment in ({}, {"TARGET_PASSWORD": "hush"}):
        with pytest.raises(ValueError, match=r"links.variables allows LOCKGATE_LINK_\*"):
            value("${env:TARGET_PASSWORD}", policy, **environment)
