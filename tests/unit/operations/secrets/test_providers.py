"""What references stand for, and what they may not name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.providers import read
from gateway.operations.secrets.rules.references import reference


def value(text: str, policy: LinkPolicy, link: str = "west", **environment: str) -> str:
    found = reference(text)
    assert found is not None
    return read(found, link, policy, environment)


@pytest.fixture
def west(tmp_path: Path) -> Path:
    """The folder of link west's secrets."""
    folder = tmp_path / "west"
    folder.mkdir()
    return folder


def test_files(west: Path) -> None:
    policy = LinkPolicy(str(west.parent))
    (west / "link.properties").write_text("# of west\npw = h\\u0075sh\n", encoding="utf-8")
    (west / "pw").write_text("hu sh\n", encoding="utf-8")
    assert value(f"${{file:{west}/link.properties:pw}}", policy) == "hush"
    assert value(f"${{dir:{west}:pw}}", policy) == value(f"${{directory:{west}:pw}}", policy) == "hu sh"
    with pytest.raises(ValueError, match=r"link.properties has no 'other'"):
        value(f"${{file:{west}/link.properties:other}}", policy)
    with pytest.raises(ValueError, match="cannot read .*: No such file"):
        value(f"${{dir:{west}:none}}", policy)


def test_a_file_of_another_link(west: Path) -> None:
    """Whoever may make links would have the password of one sent to a broker of another."""
    policy = LinkPolicy(str(west.parent))
    for path in (west / "pw", west.parent / "pw"):
        path.write_text("hush", encoding="ascii")
    for where in (f"${{dir:{west}:pw}}", f"${{dir:{west.parent}/east/../west:pw}}", f"${{dir:{west.parent}:pw}}"):
        with pytest.raises(ValueError, match="the folder of this link's secrets in links.files"):
            value(where, policy, "east")
    for name in ("..", ".", "east/../west"):  # as the state topic's writer might call a link
        with pytest.raises(ValueError, match="the folder of this link's secrets"):
            value(f"${{dir:{west}:pw}}", policy, name)


@pytest.mark.parametrize(
    "text", ["${file:%s/../../out:pw}", "${dir:%s:../../out}", "${dir:%s:link}", "${file:/etc/hosts:x}"]
)
def test_no_file_outside_the_folder(west: Path, text: str) -> None:
    (west.parent.parent / "out").write_text("pw=hush", encoding="ascii")
    (west / "link").symlink_to(west.parent.parent / "out")
    where = text.replace("%s", str(west))
    with pytest.raises(ValueError, match="is not in the folder of links' files"):
        value(where, LinkPolicy(str(west.parent)))
    with pytest.raises(ValueError, match="links may not name files"):
        value(where, LinkPolicy())


def test_no_file_of_the_gateway_itself(west: Path) -> None:
    """By whatever name: a folder of links' files that holds the key, or a hard link to it."""
    key, other = west / "links.key", west / "other"
    key.write_text("a2V5", encoding="ascii")
    other.hardlink_to(key)
    policy = LinkPolicy(str(west.parent), own=(str(key), "/nowhere"))
    for name in ("links.key", "other"):
        with pytest.raises(ValueError, match="is the gateway's own; no link may name it"):
            value(f"${{dir:{west}:{name}}}", policy)


def test_no_file_that_never_ends(west: Path) -> None:
    policy = LinkPolicy(str(west.parent))
    os.mkfifo(west / "pipe")
    (west / "long").write_bytes(b"x" * 65_537)
    (west / "bytes").write_bytes(b"\xff")
    for name, message in {"pipe": "is not a file", "long": "is longer than", "bytes": "is not UTF-8"}.items():
        with pytest.raises(ValueError, match=message):
            value(f"${{dir:{west}:{name}}}", policy)


def test_variables_of_this_link_only() -> None:
    policy = LinkPolicy(variables=("LOCKGATE_LINK_{LINK}_*", "COMMON_*"))
    assert value("${env:LOCKGATE_LINK_WEST_PW}", policy, LOCKGATE_LINK_WEST_PW="hush") == "hush"
    assert value("${env:LOCKGATE_LINK_EU_WEST_1_PW}", policy, "eu-west.1", LOCKGATE_LINK_EU_WEST_1_PW="x") == "x"
    assert value("${env:COMMON_A_B}", policy, COMMON_A_B="hush") == "hush"
    with pytest.raises(ValueError, match="LOCKGATE_LINK_WEST_NO is not set"):
        value("${env:LOCKGATE_LINK_WEST_NO}", policy)
    for name in ("TARGET_PASSWORD", "LOCKGATE_LINK_EAST_PW", "LOCKGATE_LINK_WEST_2_PW", "LOCKGATE_LINK_WEST"):
        for environment in ({}, {name: "hush"}):
            with pytest.raises(ValueError, match=r"'west' may not name .*allows LOCKGATE_LINK_WEST_\*, COMMON_\*"):
                value(f"${{env:{name}}}", policy, **environment)
