"""Payloads reach the file whole, whatever the platform can do for us."""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.elements import TP
from bnfold.ir.storage import stream
from bnfold.ir.storage.source import BufferSource, FileSource
from bnfold.ir.storage.stored import Span, Stored
from bnfold.ir.storage.stream import check_range, copy_range, need_threads, write_payload, write_payloads
from bnfold.ir.tensor import Exact, InMemory, RangeViolation, Scaled
from tests.ir.build import chain

CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return FileSource(path)


def _copied(source: FileSource | BufferSource, path: Path, *spans: tuple[int, int]) -> bytes:
    """Spans with text between them, so that buffering and the kernel's copies have to keep step."""
    with path.open("wb") as out:
        for offset, length in spans:
            out.write(b"<")
            copy_range(source, offset, length, out)
            out.write(b">")
    return path.read_bytes()


SPANS = ((5, 200_001), (0, 3), (100_000, 70_000), (299_999, 1), (7, 0))
EXPECTED = b"".join(b"<" + CONTENT[offset : offset + length] + b">" for offset, length in SPANS)
SAME_IN_PAGE = ((1, 200_001), (85_316, 70_000), (7, 3))
"""Spans that begin in a page of the result where they begin in one of the source; only such ones the kernel copies."""
IN_PAGE = b"".join(b"<" + CONTENT[offset : offset + length] + b">" for offset, length in SAME_IN_PAGE)


def test_ranges_are_copied(source: FileSource, tmp_path: Path) -> None:
    assert _copied(source, tmp_path / "out", *SPANS) == EXPECTED
    assert _copied(BufferSource(CONTENT), tmp_path / "out", *SPANS) == EXPECTED


def test_without_help_from_the_kernel(source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    assert _copied(source, tmp_path / "out", *SAME_IN_PAGE) == IN_PAGE
    monkeypatch.delattr(os, "preadv", raising=False)
    assert _copied(source, tmp_path / "out", *SPANS) == EXPECTED


def test_the_kernel_copies_what_begins_alike_in_a_page(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = list[int]()

    def copy(descriptor: int, target: int, count: int, offset: int) -> int:
        lengths.append(count)
        return os.write(target, os.pread(descriptor, count, offset))

    monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    assert _copied(source, tmp_path / "out", *SAME_IN_PAGE) == IN_PAGE
    assert lengths == [200_001, 70_000]
    assert _copied(source, tmp_path / "out", *SPANS) == EXPECTED
    assert lengths == [200_001, 70_000]


def test_pieces_that_are_written_in_part(source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda target, data: write(target, data[:7_000]))
    assert _copied(source, tmp_path / "out", *SPANS) == EXPECTED


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_where_the_kernel_does_not_copy_these_files(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    """It may say so at once, or in the middle."""
    calls = 0

    def copy(descriptor: int, target: int, count: int, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(code, "not here")
        return os.write(target, os.pread(descriptor, min(count, 40_000), offset))

    monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    assert _copied(source, tmp_path / "out", *SAME_IN_PAGE) == IN_PAGE
    assert calls > after


def test_a_full_disk_is_an_error(source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    with pytest.raises(OSError, match="No space left"):
        _copied(source, tmp_path / "out", *SAME_IN_PAGE)


def test_a_source_that_shrinks_is_an_error(source: FileSource, tmp_path: Path) -> None:
    os.truncate(source.path, 150_000)
    with pytest.raises(BadInput, match="shorter"):
        _copied(source, tmp_path / "out", *SPANS)


def test_payloads_of_every_kind(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(7, 1000)).astype(np.float32)
    path = tmp_path / "source"
    path.write_bytes(values.tobytes())
    base = Stored(TP.FLOAT, values.shape, Span(FileSource(path), 0, values.nbytes))
    factor = np.linspace(-2, 3, 7)
    expected: dict[ir.Tensor, Any] = {
        base: values,
        Scaled(base, [(0, factor)]): (values.astype(np.float64) * factor[:, None]).astype(np.float32),
        Exact(TP.FLOAT16, values.astype(np.float64)): values.astype(np.float16),
        InMemory(TP.FLOAT, np.broadcast_to(np.float32(3), (2, 5))): np.full((2, 5), 3, np.float32),
    }
    for tensor, numbers in expected.items():
        told: list[int] = []
        out = BytesIO()
        write_payload(tensor, out, as_stored=False, progress=told.append)
        assert out.getvalue() == numbers.tobytes()
        assert sum(told) == tensor.nbytes == len(out.getvalue())


@pytest.mark.parametrize("parallel", [0, stream.PARALLEL])
def test_payloads_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: int) -> None:
    monkeypatch.setattr(stream, "PARALLEL", parallel)
    tensors = [InMemory(TP.FLOAT, np.full((3, 50_000), number, np.float32)) for number in range(9)]
    path, told = tmp_path / "out", list[int]()
    path.write_bytes(b"")
    payloads = [(tensor, number * tensor.nbytes) for number, tensor in enumerate(tensors)]
    write_payloads(path, payloads, as_stored=True, progress=told.append)
    assert path.read_bytes() == b"".join(tensor.array.tobytes() for tensor in tensors)
    assert sum(told) == path.stat().st_size


@pytest.mark.parametrize("bad", [(0, 8), (3, 4), (8,), tuple(range(9))])
def test_of_several_payloads_that_overflow_the_first_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: tuple[int, ...]
) -> None:
    monkeypatch.setattr(stream, "PARALLEL", 0)
    base = InMemory(TP.FLOAT, np.ones((2, 1000), np.float32))
    tensors = [Scaled(base, [(0, np.full(2, 1e39 if number in bad else 1.0))]) for number in range(9)]
    path = tmp_path / "out"
    path.write_bytes(b"")
    payloads: list[tuple[ir.Tensor, int]] = [(tensor, 8000 * number) for number, tensor in enumerate(tensors)]
    with pytest.raises(RangeViolation) as caught:
        write_payloads(path, payloads, as_stored=True, progress=None)
    assert caught.value.tensor is tensors[bad[0]]


def test_typed_fields_are_written_as_they_are_or_as_raw_data() -> None:
    proto = helper.make_tensor("w", TP.FLOAT16, (3000,), np.arange(3000, dtype=np.float16))
    loaded = ir.load(helper.make_model(helper.make_graph([], "g", [], [], [proto])))
    tensor = loaded.graph.values["w"].tensor
    assert isinstance(tensor, Stored)
    assert not tensor.is_raw
    raw, same = BytesIO(), BytesIO()
    write_payload(tensor, raw, as_stored=False)
    write_payload(tensor, same, as_stored=True)
    assert raw.getvalue() == np.arange(3000, dtype=np.float16).tobytes()
    assert len(same.getvalue()) == tensor.span.length != len(raw.getvalue())


def test_check_range_finds_what_writing_would_find() -> None:
    loaded = ir.load(chain(weights=2))
    check_range(loaded)
    value = loaded.graph.values["w1"]
    assert value.tensor is not None
    bad = Scaled(value.tensor, [(0, np.full(value.tensor.dims[0], 1e38))])
    value.tensor = bad
    with pytest.raises(RangeViolation) as caught:
        check_range(loaded)
    assert caught.value.tensor is bad
    value.tensor = Scaled(bad, [(0, np.full(bad.dims[0], 1e-38))])
    check_range(loaded)  # what was replaced is not looked at


def test_small_tensors_are_written_by_one_thread() -> None:
    small = InMemory(TP.FLOAT, np.zeros(1000, np.float32))
    large = InMemory(TP.FLOAT, np.zeros(stream.PARALLEL // 4, np.float32))
    assert not need_threads([small] * 20_000)
    assert need_threads([small, large])
