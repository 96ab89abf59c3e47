"""Models that are too large to be compared whole in float64: their parts, and the whole once in a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.claims import Evidence, Why
from bnfold.verification.codes import Code
from bnfold.verification.end_to_end import examine, ort_check
from bnfold.verification.inputs.cost import Cost
from bnfold.verification.parts import Parts
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
from bnfold.verification.verdict import RuntimeRow
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics

pytest.importorskip("onnxruntime")
judge = import_module("bnfold.verification.policy")  # the package has a function of this name
TAIL = "r = Relu (z)  m = MaxPool <kernel_shape = [2, 2]> (r)  n = Neg (m)  y = Softplus (n)"


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_check, "LITTLE_TIME", 0.0)


def pair(tail: str = TAIL, head: str = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)", error: float = 0.0) -> Any:
    rng = numbers(41)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    nodes = f"c = Conv (x, W)  z = BatchNormalization (c, scale, B, mean, var)  {tail}"
    before = model(f"{head} {{ {nodes} }}", {"W": weight, **stats})
    wrong = weight * along(s, 0, 4) * (1 + error)
    after = model(f"{head} {{ z = Conv (x, W2, b)  {tail} }}", {"W2": wrong, "b": t})
    return ir.load(before), ir.load(after)


def fed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the inputs that the runtime was given."""
    shapes: list[tuple[int, ...]] = []
    run = RuntimeProcess.run

    def watch(
        self: RuntimeProcess,
        source: ir.Model | Path,
        samples: Sequence[Mapping[str, Array]],
        limit_seconds: float,
        initializers: Mapping[str, Array] | None = None,
    ) -> RuntimeResult:
        shapes.extend(array.shape for sample in samples for array in sample.values())
        return run(self, source, samples, limit_seconds, initializers)

    monkeypatch.setattr(RuntimeProcess, "run", watch)
    return shapes


def test_parts_and_a_runtime_make_a_verdict() -> None:
    verdict = verify(*pair())
    assert (verdict.status, verdict.decided_by, verdict.outputs) == ("verified", "local", ())
    (row,) = verdict.witnesses
    assert row.ran_before
    assert row.ran_after
    assert "rounding allows" in row.notes[0]
    assert verdict.summary.endswith(row.notes[0])


def test_weights_that_are_stored_under_another_name_were_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large to be moved a little, but nothing has to show what rounding them would do."""
    weight = single(numbers(3).normal(size=(300, 300)))
    text = "(float[2,300] x) => (float[2,300] y) {{ s = Sqrt (u) u = Abs (x) {} r = Relu (c) y = Neg (r) }}"
    nodes = "a = MatMul (s, W)  b = MatMul (s, W2)  c = Add (a, b)"
    before = ir.load(model(text.format(nodes), {"W": weight, "W2": weight}))
    after = ir.load(model(text.format("a = MatMul (s, W)  c = Add (a, a)"), {"W": weight}))
    swapped = ir.load(model(text.format("a = MatMul (s, W)  c = Mul (a, t)"), {"W": weight, "t": np.array(2.0)}))
    assert verify(before, after).reason == "nothing that is computed has changed"
    verdict = verify(before, swapped)
    assert (verdict.status, verdict.decided_by, verdict.outputs) == ("verified", "local", ())
    new = ir.load(model(text.format("a = MatMul (s, V)  c = Add (a, a)"), {"V": single(weight * np.float32(1.0001))}))
    monkeypatch.setattr(judge, "check_parts", lambda *_: Parts())
    assert "how far rounding the new weights moves the outputs in a runtime could not" in verify(before, new).notes[0]


def test_what_parts_miss_the_whole_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight that is wrong by a thousandth, in a part that was not looked at."""
    monkeypatch.setattr(judge, "check_parts", lambda *_: Parts())
    verdict = verify(*pair(error=1e-3))
    assert (verdict.status, verdict.decided_by) == ("failed", "float64")


def test_a_difference_that_nobody_explains_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_time(*_: object, **__: object) -> None:
        raise judge.NotCompared(Why(Code.TIME, "it takes too long"))

    monkeypatch.setattr(judge, "check_parts", lambda *_: Parts())
    monkeypatch.setattr(examine, "examine_whole", out_of_time)
    verdict = verify(*pair(error=1e-3))
    assert verdict.status == "unverified"
    assert "differs by" in verdict.reason


def test_a_part_that_is_wrong_is_found() -> None:
    assert verify(*pair(error=1e-3)).status == "failed"


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("y = Identity (z)", id="one part is all there is"),
        pytest.param("r = Relu (z)  f = Floor (r)  n = Neg (f)  y = Exp (n)", id="a result jumps"),
        pytest.param("r = Relu (z)  a = Abs (r)  n = Neg (a)  p = Relu (n)  y = Mul (p, p)", id="no output reacts"),
    ],
)
def test_what_a_runtime_cannot_show_is_no_doubt_about_parts(tail: str) -> None:
    verdict = verify(*pair(tail))
    assert (verdict.status, verdict.decided_by, verdict.outputs) == ("verified", "local", ())
    if "Floor" in tail:
        note = "the whole models were not compared: a runtime's rounding may decide what Floor f makes of 'r'"
        assert verdict.notes[0].startswith(note)
    assert verify(*pair(tail, error=1e-3)).status == "failed"


@pytest.mark.parametrize("runtime", ["onnxruntime", "none"])
def test_float64_looks_at_the_whole_where_a_part_cannot_be_compared(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = Evidence("fold", "", ("z",), "skipped", note="it cannot be run")
    monkeypatch.setattr(judge, "check_parts", lambda *_: Parts((), (skipped,)))
    verdict = verify(*pair(), runtime=runtime)
    assert verdict.notes[-1] == "the whole models were compared in float64: fold: it cannot be run"
    monkeypatch.setattr(judge, "check_parts", lambda *_: Parts((skipped,), (replace(skipped, status="verified"),)))
    assert verify(*pair(), runtime=runtime).decided_by == "local", "what changed there was compared by itself"


def test_a_runtime_that_runs_the_original_alone_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([RuntimeResult("some", ({},)), RuntimeResult("some", error="no such operator")])
    monkeypatch.setattr(RuntimeProcess, "run", lambda *_: next(answers, RuntimeResult("some", error="gone")))
    verdict = verify(*pair())
    assert any("but not the rewritten model: no such operator" in note for note in verdict.notes), verdict.notes


def test_large_images_are_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = fed(monkeypatch)
    verdict = verify(*pair(head="(float[1,3,640,512] x) => (float[1,4,637,509] y)"))
    assert verdict.decided_by == "local"
    assert set(shapes) == {(1, 3, 160, 192)}


@pytest.mark.parametrize(
    ("tail", "stored", "tried"),
    [
        pytest.param("s = Shape (z)  y = Reshape (z, s)", [1, 4, 318, 254], {320}, id="inference sees it"),
        pytest.param(
            "s = Size (z)  f = Cast <to = 1> (s)  y = Div (z, f)", 4 * 318 * 254, {160, 320}, id="a run shows it"
        ),
    ],
)
def test_where_a_rewrite_relies_on_the_declared_size_smaller_images_decide_nothing(
    tail: str, stored: object, tried: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = fed(monkeypatch)
    before, after = pair(tail, "(float[1,3,320,256] x) => (float[1,4,318,254] y)")
    proto = onnx.ModelProto()
    proto.CopyFrom(after.proto)
    (shape,) = [node for node in proto.graph.node if node.op_type in ("Shape", "Size")]
    shape.CopyFrom(
        onnx.helper.make_node("Constant", [], ["s"], value=onnx.numpy_helper.from_array(np.array(stored), "s"))
    )
    verdict = verify(before, ir.load(proto))
    assert (verdict.status, verdict.decided_by) == ("verified", "local"), verdict.notes
    assert {shape[2] for shape in shapes} == tried


def test_of_what_takes_long_one_item_of_a_batch_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = fed(monkeypatch)
    assert verify(*pair()).decided_by == "local"
    assert {shape[0] for shape in shapes} == {2}
    shapes.clear()
    monkeypatch.setattr(ort_check, "_WORTH_LESS", 0.0)
    assert verify(*pair()).decided_by == "local"
    assert {shape[0] for shape in shapes} == {1}
    shapes.clear()
    assert verify(*pair(), inputs={"x": (4, 3, 12, 12)}).decided_by == "local"
    assert {shape[0] for shape in shapes} == {4}, "sizes that the caller gives stay"


def test_images_that_the_operators_fix_keep_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = fed(monkeypatch)
    tail = "r = Relu (z)  n = Neg (r)  e = Exp (n)  m = AveragePool <kernel_shape = [238, 238]> (e)  y = Neg (m)"
    verdict = verify(*pair(tail, "(float[1,3,240,240] x) => (float[1,4,1,1] y)"))
    assert verdict.decided_by == "local"
    assert (1, 3, 240, 240) in shapes


def test_where_smaller_images_do_not_fit_and_larger_ones_take_too_long_nothing_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = {160: Cost(0.0, 0), 240: Cost(330.0, 0)}
    monkeypatch.setattr(ort_check, "estimate_pair", lambda *sides: costs[sides[2]["x"][2]])
    tail = "r = Relu (z)  n = Neg (r)  e = Exp (n)  m = AveragePool <kernel_shape = [238, 238]> (e)  y = Neg (m)"
    verdict = verify(*pair(tail, "(float[1,3,240,240] x) => (float[1,4,1,1] y)"))
    assert (verdict.status, verdict.decided_by, verdict.outputs) == ("verified", "local", ())
    assert "the whole models were not compared: running the models would take about 99 s" in verdict.notes[0]


def test_where_nothing_has_changed_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = fed(monkeypatch)
    before, _ = pair()
    after = before.clone()
    after.proto.graph.node[0].name = "another"
    verdict = verify(before, after)
    assert (verdict.status, verdict.reason, shapes) == ("verified", "nothing that is computed has changed", [])
    (row,) = (row for row in verdict.ledger if row.prover == "runtime")
    assert row.note == "none is needed, as nothing that is computed has changed"


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.verification.request.time.monotonic", lambda: 0.0)
    verdict = verify(*pair(), budget_seconds=1e-6)
    assert (verdict.status, verdict.decided_by) == ("verified", "local")
    assert "the whole models were not compared: running the models would take about" in verdict.notes[0]


def test_other_depths_and_recorded_inputs_leave_it_alone(tmp_path: Path) -> None:
    before, after = pair()
    assert verify(before, after, depth="full").decided_by == "float64"
    np.savez(tmp_path / "data.npz", x=numbers(1).normal(size=(1, 3, 8, 8)).astype(np.float32))
    assert verify(before, after, data=tmp_path / "data.npz").decided_by == "float64"


def test_no_runtime_loads_a_gigabyte_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_check, "MOST_BYTES", 100)
    shapes = fed(monkeypatch)
    verdict = verify(*pair())
    assert (verdict.status, verdict.decided_by, shapes) == ("verified", "local", [])
    assert verify(*pair(error=0.01)).status == "failed"


def test_a_runtime_runs_the_original_with_its_control_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it runs at smaller sizes, which are sought in a copy whose branches are decided."""
    ran: list[list[str]] = []
    run = RuntimeProcess.run

    def watch(self: RuntimeProcess, source: ir.Model | Path, *args: Any) -> RuntimeResult:
        opened = source if isinstance(source, ir.Model) else ir.load(source)
        ran.append([node.op_type for node in opened.graph.nodes])
        return run(self, source, *args)

    monkeypatch.setattr(RuntimeProcess, "run", watch)
    ends = "=> (float[1,1,P,Q] y)"
    branches = f"then_branch = t () {ends[:2]} (float[1,1,P,Q] p) {{ p = Relu (x) }}"
    branches += ", else_branch = e () => (float[1,1,R,S] q) { q = Neg (x) }"
    head = f"(float[1,1,256,256] x) {ends}"
    old = ir.load(model(f"{head} {{ c = Constant <value = bool {{1}}> ()  y = If (c) <{branches}> }}", {}))
    new = ir.load(model(f"{head} {{ y = Relu (x) }}", {}))
    assert verify(old, new).verified
    assert ran[:2] == [["Constant", "If"], ["Relu"]]


@pytest.mark.parametrize(
    ("found", "spread", "dtype", "ends"),
    [
        (1.8e-6, 0.0, np.float32, "agrees"),  # a little is allowed, wherever one draw of rounding moves nothing, ...
        (2.1e-6, 0.0, np.float32, "differs"),
        (7.0e-5, 1.0e-5, np.float32, "agrees"),  # ... and eight times what it moves
        (9.0e-5, 1.0e-5, np.float32, "differs"),
        (9.0e-5, 1.4e-5, np.float32, "shows nothing"),  # but a weight that is wrong by a thousandth has to show
        (2.9e-3, 0.0, np.float16, "shows nothing"),
        (4.9e-3, 0.0, np.float16, "differs"),
    ],
)
def test_how_far_a_runtime_may_take_the_models_apart(found: float, spread: float, dtype: Any, ends: str) -> None:
    old, new, moved = ({"y": np.array([1.0, share], dtype)} for share in (0.0, found, spread))
    moved["y"][1] = moved["y"][1] or np.finfo(dtype).smallest_subnormal  # the weights react
    weighed = ort_check._compared(RuntimeRow("a runtime", True, True, True), old, new, moved)
    assert {
        "agrees": weighed.witness is not None and weighed.agrees,
        "differs": weighed.differs,
        "shows nothing": weighed.is_open and not weighed.is_suspicion,
    }[ends], weighed


@pytest.mark.parametrize(("found", "said"), [(3.4e-19, "to less than one rounding"), (3e-7, "to 3.0e-07 (rounding")])
def test_no_agreement_is_told_that_the_type_cannot_show(found: float, said: str) -> None:
    old, new = ({"y": np.array([1.0, share], np.float32)} for share in (0.0, found))
    witness = ort_check._compared(RuntimeRow("a runtime", True, True, True), old, new, None).witness
    assert witness is not None
    assert witness.notes[0].startswith(f"outputs agree {said}")
