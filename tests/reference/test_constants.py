"""Values that are the same in every run, as the evaluator's kernels compute them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.ir.tensor import Tensor
from bnfold.reference import constants
from bnfold.reference.constants import constant, keeping_constants, kept
from tests.verification.graphs import Array, Weights, model

FLOATS = np.array([1.5, -2.0, 0.25], np.float32)
LARGE = np.arange(1 << 15, dtype=np.float32)


def value(node: str, weights: Weights | None = None, *, opset: int = 13) -> ir.Value:
    """Return what a node makes of the weights, beside an input x."""
    proto = model(f"(float[N] x) => (float[N] y) {{ c = {node}  y = Add (x, c) }}", weights or {}, opset=opset)
    return ir.load(proto).graph.values["c"]


def found(node: str, weights: Weights | None = None, *, opset: int = 13) -> Tensor:
    tensor = constant(value(node, weights, opset=opset))
    assert tensor is not None
    return tensor


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Constant <value = float[2] {1.0, 2.0}> ()", np.array([1, 2], np.float32)),
        ("Constant <value_ints = [3, 4]> ()", np.array([3, 4])),
        ("Constant <value_float = 0.5> ()", np.array(0.5, np.float32)),
        ("Add (f, f)", FLOATS * 2),
        ("Cast <to = 6> (f)", np.array([1, -2, 0], np.int32)),
        ("Less (f, f)", np.array([False] * 3)),
        ("LessOrEqual (f, f)", np.array([True] * 3)),
        ("Gather (f, i)", FLOATS[[2, 0]]),
        ("Slice (f, i0, i2)", FLOATS[:2]),
        ("ConstantOfShape <value = int64[1] {7}> (i2)", np.array([7, 7])),
        ("Range (zero, seven, two)", np.array([0, 2, 4, 6])),
        ("Mod (i, i2)", np.array([0, 0])),
        ("ReduceProd <keepdims = 0> (i1)", np.array(3)),
    ],
)
def test_what_a_node_makes_of_stored_numbers(node: str, expected: Array) -> None:
    weights = {"f": FLOATS, "i": np.array([2, 0]), "i0": np.array([0]), "i1": np.array([1, 3]), "i2": np.array([2])}
    scalars = {"zero": np.array(0), "seven": np.array(7), "two": np.array(2)}
    made = found(node, weights | scalars).numpy()
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    "node",
    ["Tanh (x)", "Add (x, f)", "Conv (f, f)", "RandomNormalLike (f)", "Gather (f, far)", "Add (f, g)", "Sqrt ()"],
    ids=["an input", "a constant beside it", "no constant's operator", "random", "no such place", "do not fit", "none"],
)
def test_what_is_no_constant(node: str) -> None:
    assert constant(value(node, {"f": FLOATS, "g": np.ones(2, np.float32), "far": np.array([9])})) is None


def test_a_default_that_callers_replace_is_none() -> None:
    proto = model("(float[N] x, float[3] f) => (float[N] y) { c = Neg (f)  y = Add (x, c) }", {"f": FLOATS})
    loaded = ir.load(proto)
    assert constant(loaded.graph.values["f"]) is None
    assert constant(loaded.graph.values["c"]) is None


def test_an_attribute_of_the_caller_is_none() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
    g (float[N] x) => (float[N] y) { y = own.f <a = 1> (x) }
    <domain: "own", opset_import: ["" : 13]> f <a> (v) => (o)
    { c = Constant <value = float[1] {1.0}> ()  d = Cast <to: int = @a> (c)  o = Add (v, d) }"""
    (function,) = ir.load(onnx.parser.parse_model(text)).functions
    assert constant(function.values["c"]) is not None
    assert constant(function.values["d"]) is None


def test_a_chain_is_rounded_once() -> None:
    """In float32, step by step, the third root of 3 to the third is another number."""
    third = np.float32(1 / 3)
    made = found("Mul (t, t)", {"t": np.array([third])})
    assert made.numpy()[0] == np.float32(np.float64(third) ** 2)
    proto = model(
        "(float[N] x) => (float[N] y) { a = Mul (t, t)  b = Mul (a, t)  c = Mul (b, t)  y = Add (x, c) }",
        {"t": np.array([third])},
    )
    chain = constant(ir.load(proto).graph.values["c"])
    assert chain is not None
    assert chain.numpy()[0] == np.float32(np.float64(third) ** 4)


def test_a_chain_that_overflows_on_its_way_is_none() -> None:
    body = "(float[N] x) => (float[N] y) { a = Mul (h, h)  c = Mul (a, l)  y = Add (x, c) }"
    proto = model(body, {"h": np.array([1e30], np.float32), "l": np.array([1e-30], np.float32)})
    assert constant(ir.load(proto).graph.values["c"]) is None


def test_what_a_cast_rounds_is_rounded() -> None:
    body = "(float[N] x) => (float[N] y) { a = Cast <to = 10> (t)  c = Cast <to = 1> (a)  y = Add (x, c) }"
    third = np.array([1 / 3], np.float32)
    loaded = ir.load(model(body, {"t": third}))
    rounded = constant(loaded.graph.values["c"])
    assert rounded is not None
    assert rounded.float64()[0] == np.float64(np.float16(third[0]))


def test_a_comparison_that_rounding_decides_is_none() -> None:
    nodes = "a = Mul (t, t)  b = Mul (a, t)  d = Mul (t, a)  e = Add (b, s)  c = Less (d, e)"
    proto = model(
        f"(float[N] x) => (bool[1] c) {{ {nodes} }}",
        {"t": np.array([1.1], np.float32), "s": np.array([1e-8], np.float32)},
    )
    assert constant(ir.load(proto).graph.values["c"]) is None


def test_large_operands_are_read_when_the_result_is(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[ir.Tensor] = []
    held = value("Transpose (w)", {"w": LARGE.reshape(2, -1)})
    weight = held.graph.values["w"].tensor
    assert weight is not None
    plain = type(weight).numpy

    def noted(tensor: ir.Tensor) -> Array:
        reads.append(tensor)
        return plain(tensor)

    monkeypatch.setattr(type(weight), "numpy", noted)
    tensor = constant(held)
    assert tensor is not None
    assert (tensor.dims, reads) == ((1 << 14, 2), [])
    np.testing.assert_array_equal(tensor.numpy(), LARGE.reshape(2, -1).T)
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Mul (w, two)", LARGE * 2),
        ("Sqrt (w)", np.sqrt(LARGE.astype(np.float64)).astype(np.float32)),
        ("Greater (w, two)", LARGE > 2),
        ("Gather (w, all)", LARGE[::-1]),
    ],
)
def test_a_large_result(node: str, expected: Array) -> None:
    weights: Weights = {"w": LARGE, "two": np.array(2, np.float32), "all": np.arange(LARGE.size)[::-1].copy()}
    tensor = found(node, weights)
    assert isinstance(tensor, constants.Evaluated)
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_large_chains_keep_what_is_not_rounded_yet() -> None:
    body = "(float[N] x) => (float[N] y) { a = Mul (w, t)  b = Transpose (a)  c = Mul (b, t)  y = Add (x, c) }"
    proto = model(body, {"w": LARGE, "t": np.array(1 / 3, np.float32)})
    tensor = constant(ir.load(proto).graph.values["c"])
    assert tensor is not None
    exact = LARGE.astype(np.float64) * np.float64(np.float32(1 / 3)) ** 2
    np.testing.assert_array_equal(tensor.numpy(), exact.astype(np.float32))
    np.testing.assert_array_equal(tensor.float64(), exact)


def test_a_fill_takes_no_memory() -> None:
    tensor = found("ConstantOfShape (dims)", {"dims": np.array([1 << 14, 1 << 13])})
    assert tensor.size == 1 << 27
    assert tensor.numpy().strides == (0, 0)


def test_a_chain_is_evaluated_once_inside_of_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    held, runs = value("Add (f, f)", {"f": FLOATS}), list[str]()
    plain = constants.made_of

    def counted(node: ir.Node, *rest: object) -> ir.Tensor | None:
        runs.append(node.op_type)
        return plain(node, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(constants, "made_of", counted)
    with keeping_constants(held.graph.model):
        with keeping_constants(held.graph.model):
            assert constant(held) is constant(held)
        assert constant(held) is not None
    assert runs == ["Add"]
    assert constant(held) is not None
    assert runs == ["Add", "Add"]


def test_what_is_concluded_of_constants_is_kept_as_long() -> None:
    loaded = value("Neg (f)", {"f": FLOATS}).graph.model
    with keeping_constants(loaded):
        assert kept(loaded, id_of) is kept(loaded, id_of)
    assert kept(loaded, id_of) is not kept(loaded, id_of)


def id_of(_: ir.Model) -> list[int]:
    return []


def test_a_circle_and_a_long_chain_end() -> None:
    steps = "  ".join(f"a{step + 1} = Neg (a{step})" for step in range(100))
    body = f"(float[N] x) => (float[N] y) {{ a0 = Neg (f)  {steps}  b = Add (b, f)  y = Add (x, a100)  }}"
    graph = ir.load(model(body, {"f": FLOATS})).graph
    assert constant(graph.values["a9"]) is not None
    assert constant(graph.values["a100"]) is None
    assert constant(graph.values["b"]) is None


def test_casts_of_constants_are_rounded_by_what_the_reference_knows_itself() -> None:
    body = "(float[1] x) => (float[1] y) { a = Cast <to = 10> (t)  c = Cast <to = 1> (a)  y = Add (x, c) }"
    third = np.array([1 / 3], np.float32)
    (made,) = reference.evaluate(ir.load(model(body, {"t": third})), {"x": np.zeros(1)}).values()
    assert made[0] == np.float64(np.float16(third[0]))
