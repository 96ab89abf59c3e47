from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.runtimes import helpers, worker
from bnfold.verification.runtimes.runtime import RuntimeProcess
from tests.verification.graphs import affine, along, model, numbers, single, statistics

pytestmark = pytest.mark.measures_children
BODY = "(float[N,3] x) => (float[N,4] y) { y = Gemm (x, W, b) }"


def proto() -> onnx.ModelProto:
    return model(BODY, {"W": numbers(0).normal(size=(3, 4)), "b": numbers(1).normal(size=4)})


def feeds() -> list[dict[str, Any]]:
    return [{"x": numbers(seed).normal(size=(2 + seed, 3)).astype(np.float32)} for seed in range(2)]


def test_messages_survive_the_way() -> None:
    samples = [
        {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "s": np.array(["x", "ü"], dtype=object)},
        {"e": np.zeros((0, 4)), "i": np.array(7), "b": np.array([[True], [False]])},
    ]
    head, back = worker.unpack(io.BytesIO(worker.pack({"runtime": "r"}, samples)))
    assert head == {"runtime": "r"}
    for sent, received in zip(samples, back, strict=True):
        for name, array in sent.items():
            assert received[name].dtype == array.dtype
            assert np.array_equal(received[name], array)
            assert received[name].shape == array.shape


def test_a_truncated_message_is_an_error() -> None:
    message = worker.pack({}, [{"a": np.zeros(100)}])
    with pytest.raises(ValueError, match=r"buffer|reshape|cannot"):
        worker.unpack(io.BytesIO(message[:-8]))


def test_onnxruntime_testifies_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(proto(), path)
    testimony = RuntimeProcess("onnxruntime").run(path, feeds(), 60.0)
    assert testimony.ran, testimony.error
    assert testimony.runtime.startswith("onnxruntime ")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto().graph.initializer}
    for sample, result in zip(feeds(), testimony.results, strict=True):
        assert result["y"] == pytest.approx(sample["x"] @ weights["W"] + weights["b"], rel=1e-5)


def test_a_model_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert RuntimeProcess("onnxruntime").run(ir.load(proto()), feeds(), 60.0).ran
    assert list(tmp_path.iterdir()) == []


def test_what_the_runtime_says_is_the_reason() -> None:
    old = ir.load(model("(float[N,3,L] x) => (float[N,3,L] y) { y = Scale (x) }", {}))
    testimony = RuntimeProcess("onnxruntime").run(old, feeds(), 60.0)
    assert not testimony.ran
    assert "Scale" in testimony.error
    assert "\n" not in testimony.error


def stand_in(folder: Path, script: str) -> str:
    """An interpreter that does something else than run the worker."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(os.name == "nt", reason="no signals there")
def test_a_crash_is_a_result(tmp_path: Path) -> None:
    python = stand_in(
        tmp_path, "import os, signal, sys; sys.stdin.buffer.readline(); os.kill(os.getpid(), signal.SIGSEGV)"
    )
    testimony = RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), feeds(), 60.0)
    assert testimony.error == "crashed (SIGSEGV)"
    assert testimony.obstacle == "crashed"


@pytest.mark.skipif(os.name == "nt", reason="no signals there")
def test_one_that_is_killed_has_not_looked(tmp_path: Path) -> None:
    python = stand_in(
        tmp_path, "import os, signal, sys; sys.stdin.buffer.readline(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    testimony = RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), feeds(), 60.0)
    assert (testimony.error, testimony.obstacle) == ("was killed (SIGKILL)", "not looked")


@pytest.mark.parametrize(
    ("error", "obstacle"),
    [
        ("MemoryError()", "not looked"),
        ("RuntimeError('Failed to allocate memory for requested buffer of size 8')", "not looked"),
        ("RuntimeError('std::bad_alloc')", "not looked"),
        ("ImportError('libonnxruntime.so: cannot open shared object file')", "not looked"),
        ("RuntimeError('no such operator')", "refused"),
    ],
)
def test_where_memory_or_the_runtime_itself_is_missing_it_has_not_looked(
    tmp_path: Path, error: str, obstacle: str
) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker
def run(*_):
    raise {error}
worker.RUNTIMES["onnxruntime"] = run
worker.main()"""
    testimony = RuntimeProcess("onnxruntime", stand_in(tmp_path, script)).run(Path("m.onnx"), [], 60.0)
    assert not testimony.ran
    assert testimony.obstacle == obstacle


def test_what_only_the_developers_of_a_runtime_need_is_left_out(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 999]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
    )
    onnx.save(proto, tmp_path / "m.onnx")
    testimony = RuntimeProcess("onnxruntime").run(tmp_path / "m.onnx", [], 60.0)
    assert testimony.error.startswith("ONNX Runtime only *guarantees* support")
    assert testimony.obstacle == "refused"


def test_a_worker_that_dies_otherwise_is_a_result(tmp_path: Path) -> None:
    python = stand_in(tmp_path, "import os, sys; os.read(0, 1); sys.exit('out of luck')")
    testimony = RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), feeds(), 60.0)
    assert testimony.error == "ended with code 1: out of luck"


def test_time_is_limited(tmp_path: Path) -> None:
    python = stand_in(tmp_path, "import time; time.sleep(60)")
    testimony = RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), feeds(), 0.5)
    assert "longer than" in testimony.error
    assert testimony.obstacle == "not looked"


def test_one_process_answers_again_until_it_dies(tmp_path: Path) -> None:
    """Who dies of a second request may have died of the first one's aftermath: a new process is asked."""
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker
worker.RUNTIMES["onnxruntime"] = lambda model, *_: (str(os.getpid()), []) if "bad" not in model else os._exit(3)
worker.main()"""
    python = stand_in(tmp_path, script)
    first, second = (RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), [], 60.0).runtime for _ in range(2))
    assert first == second
    assert RuntimeProcess("onnxruntime", python).run(Path("bad.onnx"), [], 60.0).error == "ended with code 3"
    assert RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), [], 60.0).runtime != first


def test_a_helper_is_there_before_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(proto(), path)
    python = stand_in(tmp_path, f"import runpy; runpy.run_path({worker.__file__!r}, run_name='__main__')")

    def pids() -> list[int]:
        return [helper.pid for helper in helpers._idle.get(os.getpid(), []) if helper.python == python]

    helpers.start(python, "onnxruntime")
    started = pids()
    assert len(started) == 1
    helpers.start(python, "onnxruntime")
    assert pids() == started
    assert RuntimeProcess("onnxruntime", python).run(path, feeds(), 60.0).ran
    assert pids() == started


def test_a_helper_does_not_start_threads_that_nobody_needs(tmp_path: Path) -> None:
    said = tmp_path / "said"
    python = stand_in(tmp_path, f"import os; open({str(said)!r}, 'w').write(os.environ['OPENBLAS_NUM_THREADS'])")
    RuntimeProcess("onnxruntime", python).run(Path("m.onnx"), [], 60.0)
    assert said.read_text() == "1"


def test_nobody_minds_that_no_helper_can_be_started(tmp_path: Path) -> None:
    helpers.start(str(tmp_path / "none"), "onnxruntime")
    assert not [helper for helper in helpers._idle.get(os.getpid(), []) if helper.python == str(tmp_path / "none")]


def test_a_helper_makes_room_for_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "MOST_ANSWERS", 2)
    before = {helper.pid for helper in helpers._idle.get(os.getpid(), [])}
    path = tmp_path / "model.onnx"
    onnx.save(proto(), path)
    python = stand_in(tmp_path, f"import runpy; runpy.run_path({worker.__file__!r}, run_name='__main__')")
    for left in (1, 0):
        assert RuntimeProcess("onnxruntime", python).run(path, feeds(), 60.0).ran
        now = {helper.pid for helper in helpers._idle.get(os.getpid(), [])}
        assert len(now - before) == left


def test_a_fork_has_helpers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "MOST_ANSWERS", 10**9)  # one that other tests asked does not make room here
    assert RuntimeProcess("onnxruntime").run(ir.load(proto()), feeds(), 60.0).ran
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        assert helpers._take(sys.executable) is None
    mine = helpers._take(sys.executable)
    assert mine is not None
    mine.end()


def test_helpers_end_with_the_program(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(proto(), path)
    program = (
        "import sys; from pathlib import Path; from bnfold.verification.runtimes import helpers, runtime\n"
        "import numpy as np\n"
        "feeds = [{'x': np.ones((2, 3), np.float32)}]\n"
        "told = runtime.RuntimeProcess('onnxruntime').run(Path(sys.argv[1]), feeds, 60)\n"
        "assert told.ran, told\n"
        "print(helpers._take(sys.executable).pid)"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(path)]
    pid = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail("it is still there")


def test_onnxruntime_really_crashes_and_nothing_else_does() -> None:
    """Five slots of which one is named: the runtime dies, the verdict is still reached."""
    stats = statistics(numbers(3), 3)
    body = "(float[N,3,H,W] x) => (float[N,3,H,W] y) { y, a, b, c, d = BatchNormalization (x, scale, B, mean, var) }"
    before = model(body, stats, opset=9)
    for index in range(1, 5):
        before.graph.node[0].output[index] = ""
    verdict = verify(ir.load(before), ir.load(before))
    assert verdict.status == "verified"
    assert not verdict.witnesses[0].ran_before
    assert any("crashed" in note for note in verdict.witnesses[0].notes)
    assert verdict.outputs[0].error_before is not None


def test_the_worker_imports_nothing_of_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import runpy, sys; runpy.run_path({worker.__file__!r}); print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    rooms = {name.split(".")[0] for name in done.stdout.split()}
    assert "json" in rooms
    assert not rooms & {"bnfold", "numpy", "onnx", "onnxruntime"}


def folded() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rng = numbers(4)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)"
    nodes = "c = Conv (x, W)  y = BatchNormalization (c, scale, B, mean, var)"
    before = model(f"{head} {{ {nodes} }}", {"W": weight, **stats})
    return before, model(f"{head} {{ y = Conv (x, W, b) }}", {"W": weight * along(s, 0, 4), "b": t})


def test_openvino_testifies() -> None:
    pytest.importorskip("openvino")
    before, after = folded()
    verdict = verify(ir.load(before), ir.load(after), runtime="openvino")
    assert verdict.status == "verified"
    assert verdict.witnesses[0].agrees
    assert verdict.witnesses[0].ran_after


def test_a_witness_that_is_not_installed_is_no_obstacle(tmp_path: Path) -> None:
    script = (
        f"import sys, runpy; sys.modules['openvino'] = None; runpy.run_path({worker.__file__!r}, run_name='__main__')"
    )
    testimony = RuntimeProcess("openvino", stand_in(tmp_path, script)).run(Path("m.onnx"), feeds(), 60.0)
    assert "openvino" in testimony.error


def test_errors_in_storage_precision_are_reported_for_both() -> None:
    before, after = folded()
    verdict = verify(ir.load(before), ir.load(after))
    (row,) = verdict.outputs
    assert verdict.witnesses[0].agrees
    assert 0 < (row.error_before or 0) < 1e-5
    assert 0 < (row.error_after or 0) < 1e-5


@pytest.mark.parametrize("is_run", [True, False])
def test_weights_are_packed_for_a_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_run: bool) -> None:
    source = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x) => (float[2, 2] y) { y = MatMul (x, x) }'
    onnx.save(onnx.parser.parse_model(source), tmp_path / "m.onnx")
    entries = dict[str, str]()

    class Recorded(onnxruntime.SessionOptions):  # type: ignore[misc] # it has no types
        def add_session_config_entry(self, name: str, value: str) -> None:
            entries[name] = value
            super().add_session_config_entry(name, value)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Recorded)
    samples = [{"x": np.eye(2, dtype=np.float32)}] if is_run else []
    _, results = worker.run_onnxruntime(str(tmp_path / "m.onnx"), samples, {})
    assert len(results) == is_run
    assert ("session.disable_prepacking" in entries) != is_run
