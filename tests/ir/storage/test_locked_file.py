"""Who holds a file, what of a killed run is removed, and that no moment of dying loses a model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bnfold import ir
from bnfold.ir.storage import locked_file
from bnfold.ir.storage.save import stage
from tests.ir.build import chain, names, read

pytestmark = pytest.mark.skipif(locked_file.fcntl is None, reason="files cannot be locked here")


@pytest.fixture(params=["links", "one name"], autouse=True)
def names_of_a_file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Also on a file system where a file has one name only."""
    if request.param == "one name":
        monkeypatch.setattr(os, "link", _refuse)
    return str(request.param)


def _refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_what_nobody_holds_is_swept_and_nothing_else(tmp_path: Path) -> None:
    held = locked_file.temporary(tmp_path)
    left = tmp_path / ".bnfold-0123456789ab.tmp"
    left.write_bytes(b"left behind")
    others = {".bnfold-0123456789ab.tmp.keep", "x.bnfold-0123456789ab.tmp", ".bnfold-m.onnx", ".out.onnx.bnfold"}
    for name in others:
        (tmp_path / name).touch()
    locked_file.remove_stale(tmp_path)
    assert names(tmp_path) == others | {held.path.name}
    held.release()
    locked_file.remove_stale(tmp_path)
    assert names(tmp_path) == others


def test_a_folder_that_cannot_be_read_is_not_swept(tmp_path: Path) -> None:
    locked_file.remove_stale(tmp_path / "nowhere")


def test_a_link_by_the_name_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / ".bnfold-0123456789ab.tmp").symlink_to("precious")
    locked_file.remove_stale(tmp_path)
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_the_next_save_sweeps(tmp_path: Path) -> None:
    (tmp_path / ".bnfold-0123456789ab.tmp").write_bytes(b"left behind")
    with stage(ir.load(chain()), tmp_path / "a.onnx") as first:
        ir.save(ir.load(chain()), tmp_path / "b.onnx")  # of a run beside this one
        assert names(tmp_path) == {first.path.name, "b.onnx"}
        first.commit()
    assert names(tmp_path) == {"a.onnx", "b.onnx"}


def test_an_empty_file_under_the_name_of_the_data_is_one_that_was_left(tmp_path: Path) -> None:
    (tmp_path / "m.onnx.data").touch()
    ir.save(ir.load(chain()), tmp_path / "m.onnx", external_data="m.onnx.data")
    assert names(tmp_path) == {"m.onnx", "m.onnx.data"}
    assert read(tmp_path / "m.onnx") == chain()


def test_an_empty_file_that_is_held_is_taken(tmp_path: Path) -> None:
    with locked_file.create(tmp_path / "m.onnx.data") or pytest.fail("not taken"):
        ir.save(ir.load(chain()), tmp_path / "m.onnx", external_data="m.onnx.data")
    assert (tmp_path / "m.onnx.data").stat().st_size == 0
    assert read(tmp_path / "m.onnx") == chain()


def test_a_failed_run_leaves_the_data_that_another_found_to_be_its_own(tmp_path: Path) -> None:
    """Two runs on one output make the same data. The first fails, before or after the second has committed."""
    target = tmp_path / "m.onnx"
    for first_to_end in ("first", "second"):
        first = stage(ir.load(chain()), target, external_data="m.onnx.data")
        second = stage(ir.load(chain()), target, external_data="m.onnx.data")
        assert (first.owns_data, second.owns_data) == (True, False)
        if first_to_end == "first":
            first.discard()
            second.commit()
        else:
            second.commit()
            first.discard()
        assert read(target) == chain()
        assert names(tmp_path) == {"m.onnx", "m.onnx.data"}
        ir.save(ir.load(chain(weights=1)), target, external_data="none")
        assert names(tmp_path) == {"m.onnx"}


def test_the_old_data_stays_while_another_run_uses_it_again(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    ir.save(ir.load(chain()), target, external_data="m.onnx.data")
    same = stage(ir.load(chain()), target, external_data="m.onnx.data")
    ir.save(ir.load(chain(weights=2)), target, external_data="none")
    same.commit()
    assert read(target) == chain()


def test_of_two_runs_on_one_output_the_last_one_wins_whole(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    ir.save(ir.load(chain(weights=4)), target, external_data="m.onnx.data")
    first = stage(ir.load(chain(weights=2)), target, external_data="m.onnx.data")
    second = stage(ir.load(chain(weights=3)), target, external_data="m.onnx.data")
    first.commit()
    assert read(target) == chain(weights=2)
    second.commit()
    assert read(target) == chain(weights=3)
    assert len(names(tmp_path)) == 2


DIES = """
import os, signal, sys
from bnfold import ir

source, target, external, names = sys.argv[1:]
def refuse(*_):
    raise PermissionError(1, "Operation not permitted")
if names == "one name":
    os.link = refuse
model = ir.load(source)
# What is imported late is imported now: no file of ours is touched by that.
from bnfold.ir.storage.save import encode
encode(model)
count = 0

def hook(event, arguments):
    global count
    touches = event in ("open", "os.rename", "os.remove", "os.chmod", "os.truncate")
    if touches and os.path.dirname(target) in str(arguments[0]):
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

for line in sys.stdin:
    moment = int(line)
    child = os.fork()
    if not child:
        sys.addaudithook(hook)
        ir.save(model, target, external_data=external)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def dying(*arguments: str | Path) -> Iterator[Callable[[int], int]]:
    """Saves in a process that dies at the given moment, and tells how it ended; one that is ready forks all of them."""
    with subprocess.Popen(
        [sys.executable, "-c", DIES, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, told = process.stdin, process.stdout

        def save(moment: int) -> int:
            print(moment, file=asked, flush=True)
            return int(told.readline())

        yield save


@pytest.mark.parametrize(
    ("old", "external"),
    [
        ("nothing", "none"),
        ("nothing", "m.onnx.data"),
        ("inside", "m.onnx.data"),
        ("outside", "none"),
        ("outside", "m.onnx.data"),
        ("same", "m.onnx.data"),
    ],
)
def test_dying_before_any_file_operation_leaves_a_whole_model(
    tmp_path: Path, old: str, external: str, names_of_a_file: str
) -> None:
    """Every moment at which a run may die, one after another, until it no longer dies."""
    source, place = tmp_path / "in.onnx", tmp_path / "out"
    source.write_bytes(chain(weights=3).SerializeToString())
    target = place / "m.onnx"
    with dying(source, target, external, names_of_a_file) as save:
        for moment in range(100):
            place.mkdir()
            before = {"nothing": None, "inside": chain(2), "outside": chain(2), "same": chain(3)}[old]
            if before is not None:
                ir.save(ir.load(before), target, external_data="none" if old == "inside" else "m.onnx.data")
            code = save(moment)
            assert code in (0, -9)
            if target.exists():
                assert read(target) in (before, chain(3))
            else:
                assert before is None
            ir.save(ir.load(source), target, external_data=external)
            assert read(target) == chain(3)
            assert not [name for name in names(place) if name.startswith(".bnfold")]
            for path in place.iterdir():
                path.unlink()
            place.rmdir()
            if code == 0:
                assert moment >= 3
                return
    pytest.fail("it dies for ever")


def test_claims_do_not_reach_child_processes(tmp_path: Path) -> None:
    held = locked_file.temporary(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    held.release()
    locked_file.remove_stale(tmp_path)
    assert names(tmp_path) == set()
    assert child.stdin is not None
    child.communicate(b"\n")
    assert child.returncode == 0


def test_without_locks_nothing_is_swept_and_all_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.setattr(locked_file, "fcntl", None)
    (tmp_path / ".bnfold-0123456789ab.tmp").write_bytes(b"left behind")
    (tmp_path / "m.onnx.data").touch()
    for weights in (2, 3):
        ir.save(ir.load(chain(weights)), tmp_path / "m.onnx", external_data="m.onnx.data")
        assert read(tmp_path / "m.onnx") == chain(weights)
    stage(ir.load(chain()), tmp_path / "n.onnx", external_data="w.bin").discard()
    assert ".bnfold-0123456789ab.tmp" in names(tmp_path)
    assert len(names(tmp_path)) == 4
    os.remove(tmp_path / "m.onnx")  # noqa: PTH107 - nobody holds it
