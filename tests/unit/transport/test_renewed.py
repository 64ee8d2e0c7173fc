"""What is made of files is made anew when they change, and kept when they are of no use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.transport.renewed import Renewed


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def made(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def test_new_files_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "number"
    path.write_text("1", encoding="ascii")
    number = Renewed("the number", lambda: made(path), [path], Clock())
    assert number.get() == 1
    path.write_text("22", encoding="ascii")
    assert number.get() == 22
    path.write_text("two", encoding="ascii")
    assert number.get() == number.get() == 22
    assert caplog.text.count("the number: the new files are of no use, the old ones stay in force") == 1
    path.unlink()
    assert number.get() == 22
    path.write_text("3", encoding="ascii")
    assert number.get() == 3


def test_a_mounted_secret_is_a_link_that_is_changed(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).write_text(name, encoding="ascii")
        os.utime(tmp_path / name, ns=(1, 1))
    path = tmp_path / "number"
    path.symlink_to("1")
    number = Renewed("the number", lambda: made(path), [str(path)], Clock())
    path.unlink()
    path.symlink_to("2")
    assert number.get() == 2


def test_files_are_looked_at_once_a_second(tmp_path: Path) -> None:
    path = tmp_path / "number"
    path.write_text("1", encoding="ascii")
    number = Renewed("the number", lambda: made(path), [path], lambda: 5.0)
    path.write_text("22", encoding="ascii")
    assert number.get() == 1


def test_files_of_no_use_at_first_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Renewed("the number", lambda: made(tmp_path / "none"), [tmp_path / "none"])


def test_a_file_that_it_has_made_itself_is_no_new_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "number"

    def make() -> int:
        if not path.exists():
            path.write_text("1", encoding="ascii")
        return made(path)

    number = Renewed("the number", make, [path], Clock())
    with caplog.at_level("INFO"):
        assert [number.get() for _ in range(3)] == [1, 1, 1]
    assert not caplog.records
