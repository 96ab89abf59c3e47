"""Sizes of inner values, as runs of the original make them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir, reference
from bnfold.settings import VerifyOptions
from bnfold.verification.comparing import recording as module
from bnfold.verification.comparing.recording import Recording, Recordings
from bnfold.verification.request import Clock, Request
from tests.verification.graphs import model


def recordings(before: onnx.ModelProto, after: onnx.ModelProto | None = None) -> tuple[ir.Model, list[Recording]]:
    """Return the loaded original and its recordings."""
    old, new = ir.load(before), ir.load(before if after is None else after)
    for loaded in (old, new):
        loaded.sync()
        analysis.infer_shapes(loaded)
    request = Request(
        before=old,
        after=new,
        checks=VerifyOptions(),
        before_file=None,
        after_file=None,
        cuts=(),
        policy=reference.Policy(),
        clock=Clock(60.0),
        scaled={},
        chose_version=True,
        progress=lambda *_: None,
    )
    return old, list(Recordings(request))


def shape(found: Recording, value: ir.Value) -> tuple[int, ...] | None:
    shapes = found.shapes({"v": value})
    return None if shapes is None else shapes["v"]


def test_levels_of_a_network_have_the_sizes_of_one_run() -> None:
    nodes = "a = Conv <pads = [1,1,1,1]> (x, W)  b = MaxPool <kernel_shape = [2,2], strides = [2,2]> (a)  y = Relu (b)"
    old, found = recordings(
        model(f"(float[N,3,H,W0] x) => (float[N,4,P,Q] y) {{ {nodes} }}", {"W": np.ones((4, 3, 3, 3))})
    )
    values = old.graph.values
    taken = [each for each in found if each.is_certain({"b": values["b"]})]
    for each in taken:
        batch, _, high, wide = each.inputs["x"]
        assert shape(each, values["a"]) == (batch, 4, high, wide)
        assert shape(each, values["b"]) == (batch, 4, high // 2, wide // 2)
    assert len({each.inputs["x"] for each in taken}) == len(taken) > 1


def test_integers_that_follow_from_sizes_are_recorded_and_activations_are_not() -> None:
    nodes = "s = Shape (x)  n = Gather (s, zero)  t = Mul (n, n)  g = Greater (t, zero)  y = Neg (x)"
    old, (first, *_) = recordings(
        model(f"(float[N,5] x) => (float[N,5] y, int64 t, bool g) {{ {nodes} }}", {"zero": np.array(0)})
    )
    values = {name: old.graph.values[name] for name in ("t", "g", "y", "x")}
    rows = first.inputs["x"][0]
    assert {name: array.tolist() for name, array in first.integers(values).items()} == {"t": rows * rows, "g": True}
    assert first.shapes(values) == {"t": (), "g": (), "y": (rows, 5), "x": (rows, 5)}


def test_both_branches_of_an_if_are_recorded() -> None:
    text = """<ir_version: 8, opset_import: ["" : 15]> g (float[N,4] x, bool c) => (float[N,4] y) {
        y = If (c) <then_branch = t () => (float[N,4] p) { p = Neg (x) }, else_branch = e () => (float[N,4] r) {
            k = Transpose (x)  r = Transpose (k) }>
    }"""
    old, (first, *_) = recordings(onnx.parser.parse_model(text))
    inside = {name: value for graph in old.graphs() for name, value in graph.values.items() if graph is not old.graph}
    rows = first.inputs["x"][0]
    assert (shape(first, inside["p"]), shape(first, inside["k"])) == ((rows, 4), (4, rows))


LOOP = """<ir_version: 8, opset_import: ["" : 15]> g (float[N,4] x, int64 m, bool c) => (float[P,4] y) {
    y = Loop (m, c, x) <body = b (int64 i, bool go, float[Q,4] h) => (bool on, float[R,4] z) {
        on = Identity (go)  z = Concat <axis = 0> (h, x)
    }>
}"""


def test_the_body_of_a_loop_is_recorded_in_its_first_and_its_last_turn() -> None:
    """How often it runs, callers say: three times will do."""
    old, found = recordings(onnx.parser.parse_model(LOOP))
    inside = {name: value for graph in old.graphs() for name, value in graph.values.items() if graph is not old.graph}
    first, last = found[:2]
    rows = first.inputs["x"][0]
    assert (shape(first, inside["h"]), shape(first, inside["z"])) == ((rows, 4), (2 * rows, 4))
    assert (shape(last, inside["h"]), shape(last, inside["z"])) == ((3 * rows, 4), (4 * rows, 4))
    assert last.inputs == first.inputs


def test_the_body_of_a_function_is_recorded() -> None:
    text = """<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[N,3] x) => (float[N,3] y) { y = own.f (x) }
        <domain: "own", opset_import: ["" : 15]> f (p) => (q) { h = Transpose (p)  q = Transpose (h) }"""
    old, (first, *_) = recordings(onnx.parser.parse_model(text))
    inside = {name: value for graph in old.graphs() for name, value in graph.values.items() if graph is not old.graph}
    rows = first.inputs["x"][0]
    assert (shape(first, inside["p"]), shape(first, inside["h"])) == ((rows, 3), (3, rows))


def custom(declared: str, tail: str = "y = Neg (h)") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[N,4] x) => (float[A,B] y)'
        f"{{ h = own.Op (x)  {tail} }}"
    )
    if declared:
        dims = [int(dim) if dim.isdigit() else dim for dim in declared.split(",")]
        proto.graph.value_info.append(onnx.helper.make_tensor_value_info("h", 1, dims))
    return proto


@pytest.mark.parametrize(("declared", "is_certain"), [("6,4", True), ("N,4", False)])
def test_behind_an_operator_that_nobody_can_compute_the_declared_shape_counts(declared: str, is_certain: bool) -> None:
    """A dynamic size of the model's inputs is the one that they have; but that it is so, no run has shown."""
    old, (first, *_) = recordings(custom(declared))
    h, y = (old.graph.values[name] for name in ("h", "y"))
    rows = 6 if is_certain else first.inputs["x"][0]
    assert (shape(first, h), shape(first, y)) == ((rows, 4), (rows, 4))
    assert first.is_certain({"h": h}) is first.is_certain({"y": y}) is is_certain
    assert first.is_certain({"x": old.graph.values["x"]})


def test_what_the_rewritten_model_states_alone_is_a_hint() -> None:
    old, (first, *_) = recordings(custom(""), custom("6,4"))
    h = old.graph.values["h"]
    assert shape(first, h) == (6, 4)
    assert not first.is_certain({"h": h})


def test_a_value_without_any_shape_is_not_recorded() -> None:
    old, (first, *_) = recordings(custom("", "y = own.Op (h)"))
    assert shape(first, old.graph.values["h"]) is None


def test_sizes_that_the_original_does_not_take_are_not_certain() -> None:
    """No N gives 252 elements; behind the Reshape, its target still says what there is."""
    body = "(float[N,7,5,9] x) => (float[A,7,9,1] y) { r = Reshape (x, dims)  y = Relu (r) }"
    old, found = recordings(model(body, {"dims": np.array([4, 7, 9, 1])}))
    assert found
    assert not any(each.is_certain({"x": old.graph.values["x"]}) for each in found)


def test_large_images_are_recorded_small_first_and_that_is_a_guess() -> None:
    body = "(float[1,3,640,640] x) => (float[1,4,P,Q] y) { y = Conv <strides = [2,2]> (x, W) }"
    old, found = recordings(model(body, {"W": np.ones((4, 3, 2, 2))}))
    y = old.graph.values["y"]
    assert [each.inputs["x"] for each in found] == [(1, 3, 64, 64), (1, 3, 640, 640)]
    assert [shape(each, y) for each in found] == [(1, 4, 32, 32), (1, 4, 320, 320)]
    assert [each.is_certain({"y": y}) for each in found] == [False, True]


def test_without_the_rank_of_an_input_the_rest_is_recorded() -> None:
    proto = model("(float[N,3] x, float[N] z) => (float[N,3] y, float[N] u) { y = Neg (x)  u = Abs (z) }", {})
    for info in (proto.graph.input[1], proto.graph.output[1]):
        info.type.tensor_type.ClearField("shape")
    old, (found,) = recordings(proto)
    assert shape(found, old.graph.values["y"]) == found.inputs["x"]
    assert shape(found, old.graph.values["u"]) is None
    assert not found.is_certain({"y": old.graph.values["y"]})


def test_a_model_of_very_many_nodes_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_NODES", 1)
    assert recordings(model("(float[N] x) => (float[N] y) { a = Neg (x)  y = Neg (a) }", {}))[1] == []


def test_sizes_after_the_first_differ_where_sizes_matter() -> None:
    """A slice whose end changes is recorded behind that end as well."""
    body = "(float[N,L] x) => (float[N,P] y) { y = Slice (x, zero, END, one) }"
    weights = {"zero": np.array([0]), "one": np.array([1]), "a": np.array([40]), "b": np.array([50])}
    _, found = recordings(model(body.replace("END", "a"), weights), model(body.replace("END", "b"), weights))
    assert any(each.inputs["x"][1] > 50 for each in found)
    assert any(each.inputs["x"][1] < 40 for each in found)
