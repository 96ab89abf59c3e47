"""What is stored in place of a Reshape's target that is computed, and what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.pipeline import simplifiers
from tests.verification.graphs import Weights, model

pytest.importorskip("onnxscript")
WEIGHTS: Weights = {
    "rest": np.array([-1]), "six": np.array([6]), "none": np.array([0]),
    "first": np.array(0), "last": np.array(-1), "front": np.array([0]),
}  # fmt: skip
OF_ITSELF = "s = Shape (x) g = Gather (s, first) n = Unsqueeze (g, front) t = Concat <axis = 0> (n, rest)"
HEAD = "(float[N,2,3] x, float[M,K] z) => (float[a,b] y)"


def targets(nodes: str, head: str = HEAD, **more: np.ndarray) -> list[list[int]] | None:
    """Of each Reshape the target that is stored; None where something is computed."""
    folder = Path.cwd()
    onnx.save(model(f"{head} {{ {nodes} }}", {**WEIGHTS, **more}, opset=15), folder / "in.onnx")
    simplifiers.TOOLS["onnxscript"](str(folder / "in.onnx"), str(folder / "out.onnx"))
    made = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(made, full_check=True)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in made.graph.initializer}
    found = [stored.get(node.input[1]) for node in made.graph.node if node.op_type == "Reshape"]
    return None if None in found else found  # type: ignore[return-value] # none of them is


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("nodes", "stored"),
    [
        pytest.param(f"{OF_ITSELF} y = Reshape (x, t)", [[0, -1]], id="the batch of what is reshaped"),
        pytest.param(
            "s = Shape (x) n = Gather (s, front) t = Concat <axis = 0> (n, six) y = Reshape (x, t)",
            [[0, 6]],
            id="rank 1",
        ),
        pytest.param(
            f"r = Relu (x) {OF_ITSELF} y = Reshape (r, t)", [[0, -1]], id="of another value with the same batch"
        ),
        pytest.param(
            "s = Shape (z) g = Gather (s, first) n = Unsqueeze (g, front) t = Concat <axis = 0> (n, six)"
            " y = Reshape (x, t)",
            [[-1, 6]],
            id="all that the others leave",
        ),
        pytest.param(
            f"{OF_ITSELF} f = Reshape (x, t) s2 = Shape (f) g2 = Gather (s2, first) n2 = Unsqueeze (g2, front)"
            " t2 = Concat <axis = 0> (n2, rest) c = Neg (x) y2 = Reshape (c, t2) y = Add (f, y2)",
            [[0, -1], [0, -1]],
            id="of what was reshaped before",
        ),
    ],
)
def test_sizes_that_a_reshape_takes_from_its_input_are_stored(nodes: str, stored: list[list[int]]) -> None:
    assert targets(nodes) == stored
    outcome = bnfold.optimize("in.onnx", "verified.onnx", simplify=True)
    assert [(row.name, row.status) for row in outcome.steps] == [("bnfold", "verified"), ("onnxscript", "verified")]


OF_ANOTHER = OF_ITSELF.replace("(x)", "(z)")
KEPT = [
    pytest.param("float[M,K]", OF_ANOTHER, id="another's size, beside one that is left open"),
    pytest.param("float[M,K]", OF_ITSELF.replace("(n, rest)", "(rest, n)"), id="another place"),
    pytest.param("float[M,K]", OF_ANOTHER.replace("(n, rest)", "(n, none)"), id="beside a 0"),
    pytest.param("float[M,N]", OF_ANOTHER.replace("(s, first)", "(s, last)"), id="counted from the end"),
    pytest.param("float[N,K]", OF_ANOTHER.replace("Shape (z)", "Shape <start = 1> (z)"), id="a part of the shape"),
    pytest.param("int64[N]", OF_ANOTHER.replace("Shape (z)", "Neg (z)"), id="no size"),
    pytest.param("float[M,K]", OF_ITSELF.replace("Gather (s, first)", "ReduceMax <keepdims = 0> (s)"), id="computed"),
    pytest.param("float[M,K]", "s = Shape (z) t = Identity (s)", id="no parts"),
]


@pytest.mark.parametrize(("other", "nodes"), KEPT)
def test_other_sizes_stay_computed(other: str, nodes: str) -> None:
    assert targets(f"{nodes} y = Reshape (x, t)", HEAD.replace("float[M,K]", other)) is None


def test_zero_may_mean_zero() -> None:
    assert targets(f"{OF_ITSELF} y = Reshape <allowzero = 1> (x, t)") is None


@pytest.mark.parametrize("name", ["rest", "first"])
def test_what_a_caller_may_override_is_not_stored(name: str) -> None:
    kind = "int64" if name == "first" else "int64[1]"
    assert targets(f"{OF_ITSELF} y = Reshape (x, t)", HEAD.replace("z)", f"z, {kind} {name})")) is None


def test_branches_of_equal_fills_become_one_and_nothing_is_run() -> None:
    """As in networks whose weights are left out."""
    fills = " ".join(f"{name} = ConstantOfShape <value = float[1] {{0.5}}> (dims)" for name in ("v", "w"))
    nodes = f"{fills} c = Conv (x, v) d = Conv (x, w) r = Relu (c) s = Relu (d) y = Concat <axis = 1> (r, s)"
    head = "(float[N,2,9,9] x) => (float[N,8,7,7] y)"
    onnx.save(model(f"{head} {{ {nodes} }}", {"dims": np.array([4, 2, 3, 3])}, opset=15), "in.onnx")
    outcome = bnfold.optimize("in.onnx", "out.onnx", simplify=True)
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Conv", "Relu", "Concat"]
    verdict = outcome.steps[1].verdict
    assert verdict is not None
    assert (verdict.status, verdict.local) == ("verified", ())


def test_a_result_of_onnxruntime_imports_no_more_than_the_model() -> None:
    """Older runtimes refuse a domain at a version that they do not know."""
    proto = model("(float[2] x) => (float[2] y) { h = Neg (x)  y = Identity (h) }", {}, opset=13)
    onnx.save(proto, "in.onnx")
    simplifiers.TOOLS["onnxruntime"](str(Path("in.onnx").resolve()), str(Path("out.onnx").resolve()))
    assert [entry.domain for entry in onnx.load("out.onnx").opset_import] == [""]
