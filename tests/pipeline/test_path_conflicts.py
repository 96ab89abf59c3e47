"""Whether two names lead to one file, and what must not be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bnfold.errors import SameFile
from bnfold.pipeline.path_conflicts import refuse, same


def test_names_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "a"
    there.write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "hard").hardlink_to("a")
    (tmp_path / "folder").symlink_to(".")
    for other in ("a", "./a", "link", "hard", "folder/a", "folder/hard", "nowhere/../a"):
        assert same(there, Path(other)), other
    assert not same(there, Path("b"))


def test_names_of_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "ahead").symlink_to("later")
    (tmp_path / "round").symlink_to("round")
    assert same(tmp_path / "later", tmp_path / "ahead")
    assert same(tmp_path / "later", tmp_path / "x" / ".." / "later")
    assert not same(tmp_path / "later", tmp_path / "never")
    assert not same(tmp_path / "round", tmp_path / "later")
    assert not same(tmp_path / "a\0b", tmp_path / "later")


def test_what_is_only_read_may_be_read_twice(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    refuse([("the output", b)], [("the input", a), ("the recorded inputs", a)])
    with pytest.raises(SameFile, match="a: the report would overwrite the input; choose another name"):
        refuse([("the output", b), ("the report", a)], [("the input", a)])
    with pytest.raises(SameFile, match="b: the report would overwrite the output"):
        refuse([("the output", b), ("the report", b)], [("the input", a)])
