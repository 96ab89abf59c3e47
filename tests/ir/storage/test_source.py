"""Reading from files that are strange, that change, or that are too many."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bnfold.errors import BadInput, MalformedModel
from bnfold.ir.storage.source import BufferSource, FileSource, Source

CONTENT = bytes(range(256)) * 3


@pytest.fixture(params=["buffer", "held", "opened anew", "without pread"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    if request.param == "buffer":
        return BufferSource(CONTENT)
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    if request.param == "without pread":  # as on Windows
        monkeypatch.delattr(os, "pread")
        monkeypatch.delattr(os, "O_NONBLOCK")
    return FileSource(path, hold=request.param != "opened anew")


def test_reads_exactly_what_is_asked_for(source: Source) -> None:
    assert source.size == len(CONTENT)
    assert source.read(700, 68) == CONTENT[700:]
    assert source.read(5, 0) == b""
    assert source.read(3, 4) == CONTENT[3:7]


@pytest.mark.parametrize(("offset", "length"), [(0, 769), (768, 1), (-1, 2), (5, -1), (1 << 62, 1 << 62)])
def test_refuses_what_lies_outside(source: Source, offset: int, length: int) -> None:
    with pytest.raises(MalformedModel, match="outside"):
        source.read(offset, length)


def test_long_reads_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives no more than 2 GB at a time; here no more than 100 bytes."""
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: pread(fd, min(length, 100), offset))
    assert FileSource(path).read(1, 700) == CONTENT[1:701]


@pytest.mark.parametrize("hold", [True, False])
def test_a_file_that_became_shorter(tmp_path: Path, hold: bool) -> None:
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    source = FileSource(path, hold=hold)
    os.truncate(path, 100)
    with pytest.raises(BadInput, match="shorter" if hold else "changed"):
        source.read(90, 20)
    with pytest.raises(BadInput, match="changed"):
        source.check_unchanged()


@pytest.mark.parametrize("hold", [True, False])
def test_an_edit_of_the_same_size_is_noticed(tmp_path: Path, hold: bool) -> None:
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    os.utime(path, ns=(10**18, 10**18))
    source = FileSource(path, hold=hold)
    source.check_unchanged()
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(BadInput, match="changed"):
        source.check_unchanged()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no change time")
def test_an_edit_that_hides_is_noticed(tmp_path: Path) -> None:
    """Its author put the modification time back."""
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    source = FileSource(path)
    before = path.stat()
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(BadInput, match="changed"):
        source.check_unchanged()


def test_linking_a_held_file_does_not_disturb(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    source = FileSource(path)
    os.link(path, tmp_path / "link")
    source.check_unchanged()


def test_replacing_a_held_file_does_not_disturb(tmp_path: Path) -> None:
    path, other = tmp_path / "data", tmp_path / "other"
    path.write_bytes(CONTENT)
    source = FileSource(path)
    other.write_bytes(b"new")
    other.replace(path)
    source.check_unchanged()
    assert source.read(0, 10) == CONTENT[:10]


def test_replacing_a_file_that_is_not_held_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "data", tmp_path / "other"
    path.write_bytes(CONTENT)
    source = FileSource(path, hold=False)
    assert source.fileno() is None
    assert source.read(0, 10) == CONTENT[:10]
    other.write_bytes(CONTENT)
    other.replace(path)
    with pytest.raises(BadInput, match="changed"):
        source.read(0, 10)
    path.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        source.read(0, 10)
    with pytest.raises(BadInput, match="cannot be read"):
        source.check_unchanged()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="directory"):
        FileSource(tmp_path)
    with pytest.raises(BadInput, match="No such file"):
        FileSource(tmp_path / "missing")
    with pytest.raises(BadInput, match="null byte"):
        FileSource(Path("a\0b"))
    with pytest.raises(BadInput, match="no regular file"):
        FileSource(Path(os.devnull))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no regular file"):
        FileSource(tmp_path / "pipe")


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    source = FileSource(path)
    descriptor = source.fileno()
    assert descriptor is not None
    del source
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_threads_do_not_close_the_file_on_each_other(tmp_path: Path) -> None:
    """The writer reads with two: a descriptor that another thread closed may be another file's by then."""
    path = tmp_path / "m.onnx.data"
    path.write_bytes(bytes(range(256)) * 64)
    source = FileSource(path, hold=False)

    def read(first: int) -> bool:
        return all(source.read(offset, 64)[0] == offset % 256 for offset in range(first, 16_000, 7))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))
    assert source.fileno() is None
