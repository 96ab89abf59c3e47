"""Saving loses nothing, never leaves half a file, and replaces only what it was asked to replace."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from bnfold import ir
from bnfold.errors import BadInput, OutputError
from bnfold.ir.storage import stream
from bnfold.ir.storage.save import encode, stage
from bnfold.ir.tensor import Exact, RangeViolation, Scaled
from tests.ir.build import LARGE, chain, everywhere, names, read, written

save_module = sys.modules["bnfold.ir.storage.save"]  # `bnfold.ir.save` itself is the function


def test_a_saved_model_is_the_same_message(place: Path) -> None:
    for proto in (everywhere(), chain()):
        assert written(proto, place / "m.onnx") == proto
        assert onnx.ModelProto.FromString(encode(ir.load(proto))) == proto
    assert names(place) == {"m.onnx"}


def test_saving_twice_gives_the_same_bytes(place: Path) -> None:
    loaded = ir.load(everywhere())
    ir.save(loaded, place / "a.onnx")
    ir.save(loaded, place / "b.onnx")
    ir.save(ir.load(place / "a.onnx"), place / "c.onnx")
    first = (place / "a.onnx").read_bytes()
    assert (place / "b.onnx").read_bytes() == first
    assert (place / "c.onnx").read_bytes() == first
    assert encode(loaded) == first


def test_edits_reach_the_file(place: Path) -> None:
    loaded = ir.load(chain(weights=2))
    first, second = loaded.graph.values["w0"], loaded.graph.values["w1"]
    assert first.tensor is not None
    factor = np.linspace(-3, 2, LARGE)
    before = first.tensor.numpy()
    first.tensor = Scaled(first.tensor, [(0, factor)])
    second.tensor = Exact(TensorProto.FLOAT, np.array([1 / 3]))
    back = written(loaded, place / "m.onnx")
    scaled, exact = (numpy_helper.to_array(tensor) for tensor in back.graph.initializer)
    np.testing.assert_array_equal(scaled, (before.astype(np.float64) * factor).astype(np.float32))
    np.testing.assert_array_equal(exact, np.array([1 / 3], np.float32))


def test_two_threads_write_what_one_does(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ir.load(chain(weights=5))
    for index in (0, 2, 3):
        value = loaded.graph.values[f"w{index}"]
        assert value.tensor is not None
        value.tensor = Scaled(value.tensor, [(0, np.linspace(-3, index + 1, LARGE))])
    told: list[int] = []
    ir.save(loaded, place / "one.onnx")
    monkeypatch.setattr(stream, "PARALLEL", 0)
    with stage(loaded, place / "two.onnx", progress=told.append) as staged:
        staged.commit()
    assert (place / "two.onnx").read_bytes() == (place / "one.onnx").read_bytes()
    assert sum(told) == 5 * LARGE * 4


# -- what stands in the way


def test_the_old_file_stays_until_commit_and_after_discard(place: Path) -> None:
    target = place / "m.onnx"
    target.write_bytes(b"old")
    with stage(ir.load(chain()), target) as staged:
        assert target.read_bytes() == b"old"
        assert read(staged.path) == chain()
    assert target.read_bytes() == b"old"
    assert names(place) == {"m.onnx"}
    staged.discard()


@pytest.mark.parametrize("external", ["none", "data.bin"])
@pytest.mark.parametrize("failing", ["write", "kernel", "close"])
def test_a_full_disk_leaves_the_old_state(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: str, failing: str
) -> None:
    source, target = tmp_path / "in.onnx", place / "m.onnx"
    source.write_bytes(chain(weights=3, size=100_000).SerializeToString())
    target.write_bytes(b"old")
    loaded = ir.load(source)
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_: Any, **__: Any) -> Any:
        raise full

    if failing == "write":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
        monkeypatch.setattr("bnfold.ir.storage.stream.copy_range", fail)
    elif failing == "kernel":
        monkeypatch.setattr(os, "copy_file_range", fail, raising=False)
        monkeypatch.setattr("bnfold.ir.storage.stream._piece_copy", fail)
    else:
        monkeypatch.setattr(save_module, "_write_segments", fail)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        ir.save(loaded, target, external_data=external)
    assert target.read_bytes() == b"old"
    assert names(place) == {"m.onnx"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a small file system")
def test_a_small_file_system(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    try:
        with pytest.raises(OutputError, match="No space left"):
            ir.save(ir.load(chain(weights=40)), mount / "m.onnx")
        assert names(mount) == set()
        ir.save(ir.load(chain(weights=2)), mount / "m.onnx")
        assert read(mount / "m.onnx") == chain(weights=2)
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_what_cannot_be_written_to_is_refused(place: Path) -> None:
    loaded = ir.load(chain())
    (place.parent / "a.onnx").write_bytes(b"a file")
    with pytest.raises(OutputError, match="directory"):
        ir.save(loaded, place)
    with pytest.raises(OutputError, match="no regular file"):
        ir.save(loaded, os.devnull)
    with pytest.raises(OutputError, match=r"Not a directory|File exists"):
        ir.save(loaded, place.parent / "a.onnx" / "m.onnx")
    with pytest.raises(OutputError, match="null byte"):
        ir.save(loaded, str(place / "a\0b"))
    with pytest.raises(OutputError, match="cannot be written"):
        ir.save(loaded, place / ("x" * 300))
    assert names(place) == set()
    assert not Path(os.devnull).is_file()


def test_a_long_name_is_a_name(place: Path) -> None:
    target = place / ("x" * 250)
    ir.save(ir.load(chain()), target)
    assert read(target) == chain()


def test_modes_are_kept_or_those_of_a_new_file(place: Path) -> None:
    old, new = place / "old.onnx", place / "new.onnx"
    old.write_bytes(b"old")
    old.chmod(0o600)
    for target in (old, new):
        ir.save(ir.load(chain()), target, external_data="auto" if target == new else "old.bin")
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert stat.S_IMODE((place / "old.bin").stat().st_mode) == 0o600
    (place / "plain").touch()
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE((place / "plain").stat().st_mode)


def test_a_link_is_followed_and_stays_a_link(place: Path, tmp_path: Path) -> None:
    (tmp_path / "real.onnx").write_bytes(b"old")
    (place / "link.onnx").symlink_to(tmp_path / "real.onnx")
    ir.save(ir.load(chain()), place / "link.onnx")
    assert (place / "link.onnx").is_symlink()
    assert read(tmp_path / "real.onnx") == chain()


def test_the_other_name_of_a_file_keeps_the_old_content(place: Path) -> None:
    (place / "a.onnx").write_bytes(b"old")
    os.link(place / "a.onnx", place / "b.onnx")
    ir.save(ir.load(chain()), place / "a.onnx")
    assert (place / "b.onnx").read_bytes() == b"old"


@pytest.mark.parametrize("external", ["none", "auto", "data.bin"])
def test_a_model_may_be_saved_over_itself_again_and_again(place: Path, external: str) -> None:
    target = place / "m.onnx"
    target.write_bytes(chain().SerializeToString())
    for _ in range(3):
        loaded = ir.load(target)
        ir.save(loaded, target, external_data=external)
        ir.save(loaded, target, external_data=external)  # the model lives on
        assert read(target) == chain()
        assert names(place) == ({"m.onnx", "data.bin"} if external == "data.bin" else {"m.onnx"})


def test_a_source_changed_meanwhile_is_noticed(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    source.write_bytes(chain().SerializeToString())
    os.utime(source, ns=(10**18, 10**18))
    loaded = ir.load(source)
    with source.open("r+b") as stream:
        stream.seek(4000)
        stream.write(b"1234")
    with pytest.raises(BadInput, match="changed while"):
        ir.save(loaded, place / "m.onnx")
    assert names(place) == set()


def test_an_overflow_leaves_nothing(place: Path) -> None:
    loaded = ir.load(chain(weights=2))
    value = loaded.graph.values["w1"]
    assert value.tensor is not None
    value.tensor = Scaled(value.tensor, [(0, np.full(LARGE, 1e38))])
    for external in ("none", "data.bin"):
        with pytest.raises(RangeViolation):
            ir.save(loaded, place / "m.onnx", external_data=external)
    assert names(place) == set()


def test_where_open_files_are_in_the_way_none_is_open(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, over itself and with the old data file removed."""
    monkeypatch.setattr("bnfold.ir.storage.source.MAY_HOLD", False)
    target = place / "m.onnx"
    ir.save(ir.load(chain()), target, external_data="m.onnx.data")
    loaded = ir.load(target)
    assert {source.fileno() for source in loaded.payloads.sources()} == {None}
    loaded.graph.values["w0"].tensor = Exact(TensorProto.FLOAT, np.zeros(LARGE))
    ir.save(loaded, target, external_data="m.onnx.data")
    assert len(names(place)) == 2
    assert not numpy_helper.to_array(read(target).graph.initializer[0]).any()
    with pytest.raises(BadInput, match="cannot be read"):
        ir.save(loaded, place / "again.onnx")


def test_an_old_data_file_stays_as_long_as_a_copy_of_the_old_model_needs_it(place: Path) -> None:
    source, target, copy = place / "source.onnx", place / "m.onnx", place / "copy.onnx"
    ir.save(ir.load(chain(weights=2)), target, external_data="m.onnx.data")
    copy.write_bytes(target.read_bytes())
    for weights in (3, 4):
        ir.save(ir.load(chain(weights=weights)), source)
        ir.save(ir.load(source), target, external_data="m.onnx.data")
        assert len(read(target).graph.initializer) == weights
        assert len(read(copy).graph.initializer) == 2
    assert len([name for name in names(place) if name.endswith(".data")]) == 2
    copy.unlink()
    ir.save(ir.load(chain(weights=2)), target, external_data="m.onnx.data")
    assert [name for name in names(place) if name.endswith(".data")] == ["m.onnx.data"]


KILLED = """
import sys
from pathlib import Path
from bnfold import ir

model = ir.load(sys.argv[1])
print("ready", flush=True)
for _ in range(1000):
    ir.save(model, sys.argv[2], external_data=sys.argv[3])
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("external", ["none", "data.bin"])
def test_a_killed_process_leaves_a_whole_model(place: Path, tmp_path: Path, external: str) -> None:
    source, target = tmp_path / "in.onnx", place / "m.onnx"
    source.write_bytes(chain(weights=20, size=20_000).SerializeToString())
    target.write_bytes(source.read_bytes())
    for delay in (0.002, 0.005, 0.011, 0.023, 0.047):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(source), str(target), external], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        process.stdout.close()
        assert read(target) == read(source)
    ir.save(ir.load(source), target, external_data=external)
    assert read(target) == read(source)
