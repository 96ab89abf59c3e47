"""Shapes that follow from inputs and weights, beside those that the kernels make at several sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.ir.elements import TP
from bnfold.reference.shapes import ShapeWalk, state_types
from tests.verification.graphs import Array, Weights, model

WEIGHTS: Weights = {
    "w": np.ones((5, 3, 3, 3)),
    "t": np.ones((3, 2, 2, 2)),
    "d": np.ones((6, 4)),
    "q": np.ones((4, 6)),
    "three": np.ones((3, 1, 1)),
    "i": np.array([2, 0]),
    "i2": np.array([[1, 0]]),
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "three_": np.array([3]),
    "minus": np.array([-1]),
    "last": np.array([2**63 - 1]),
    "scalar": np.array(2),
    "first": np.array(0),
    "seven": np.array(7),
    "flat": np.array([0, -1]),
    "rest": np.array([-1, 2, 2]),
    "ones": np.array([1, 1, 1, 1]),
    "pads": np.array([0, 0, 1, 0, 0, 0, 1, 2]),
    "repeats": np.array([1, 2, 1, 1]),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "edge": np.array([1, 1, 1.5 + 2**-22, 1], np.float32),
    "halves": np.array([1, 1, 0.5, 1], np.float32),
    "h": np.ones((1, 16, 4)),
    "r": np.ones((1, 16, 4)),
    "p": np.array([True, False, True]),
    "values": np.array([0, 1], np.float32),
}
HEAD = "(float[N,3,8,M] x, float[N,3,8,M] other, float[L,N,4] s, float[N,4] v)"
NODES = [
    "Relu (x)",
    "Add (x, three)",
    "Mul (x, other)",
    "Cast <to = 10> (x)",
    "Where (b, x, other)",
    "Conv (x, w)",
    "Conv <strides = [2, 1], pads = [1, 1, 1, 1]> (x, w)",
    "Conv <pads = [1, 1, 1, 1]> (x, w)",
    'Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)',
    'Conv <auto_pad = "VALID", dilations = [2, 1]> (x, w)',
    "ConvTranspose <strides = [2, 2]> (x, t)",
    "ConvTranspose <strides = [2, 1], output_padding = [1, 0], pads = [0, 1, 0, 0]> (x, t)",
    "MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)",
    "MaxPool <kernel_shape = [3, 1], strides = [2, 1], ceil_mode = 1> (x)",
    "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
    "GlobalAveragePool (x)",
    "MatMul (s, d0)",
    "MatMul (v, d0)",
    "Gemm <transB = 1> (v, d)",
    'Einsum <equation = "lnk,kj->nlj"> (s, d0)',
    "Transpose (x)",
    "Transpose <perm = [0, 2, 3, 1]> (x)",
    "Flatten (x)",
    "Flatten <axis = 2> (x)",
    "Flatten <axis = 0> (v)",
    "Reshape (x, flat)",
    "Reshape (v, rest)",
    "Reshape (x, shape)",
    "Reshape (x, joined)",
    "Reshape (v, unknown)",
    "Squeeze (u, one)",
    "Unsqueeze (v, one)",
    "Unsqueeze (v, minus)",
    "Concat <axis = 1> (x, other)",
    "Concat <axis = 3> (x, other)",
    "Slice (x, one, last, two)",
    "Slice (x, zero, last, three_)",
    "Slice (x, one, last, three_)",
    "Slice (x, minus, zero, two, minus)",
    "Gather <axis = 1> (x, i)",
    "Gather <axis = 1> (x, scalar)",
    "Gather (i, i2)",
    "GatherElements <axis = 1> (v, places)",
    "GatherND (x, at)",
    "Expand (three, shape)",
    "Expand (v0, pair)",
    "Tile (x, repeats)",
    "Pad (x, pads)",
    "ReduceMean <axes = [2, 3]> (x)",
    "ReduceMax <axes = [1], keepdims = 0> (x)",
    "ReduceSum <keepdims = 0> (x, one)",
    "ReduceSum (x)",
    "ReduceSum <noop_with_empty_axes = 1> (x)",
    "ArgMax <axis = 1> (x)",
    "ArgMin <axis = -1, keepdims = 0> (x)",
    "Shape (x)",
    "Shape <start = 1, end = -1> (x)",
    "Size (x)",
    "ConstantOfShape (shape)",
    "ConstantOfShape (pair)",
    "Range (first, seven, scalar)",
    "Range (first, count, scalar)",
    "NonZero (v)",
    "OneHot (places, scalar, values)",
    "TopK (v, two)",
    "DepthToSpace <blocksize = 2> (deep)",
    "SpaceToDepth <blocksize = 2> (x)",
    "Resize (x, none, scales)",
    "Resize (x, none, halves)",
    "Resize (x, none, none, sizes)",
    "LSTM <hidden_size = 4> (s, h, r)",
    'GRU <hidden_size = 4, direction = "bidirectional"> (s, h2, r2)',
    "LayerNormalization (v, ln)",
    "Softmax (x)",
    "Dropout (x)",
    "EyeLike (v)",
    "Equal (x, other)",
    "CumSum (v, scalar1)",
    "PRelu (x, three)",
]
"""Nodes on inputs whose sizes are open."""
INNER = """
    b = Greater (x, other)  shape = Shape (x)  none = Identity (nothing)  u = Unsqueeze (v, one)
    n = Slice (shape, zero, one)  m = Gather (shape, three_)  joined = Concat <axis = 0> (n, minus, m)
    pair = Concat <axis = 0> (n, two)  doubled = Mul (n, two)  unknown = Concat <axis = 0> (minus, two0, doubled)
    zeros = Mul (v, nought)  places = Cast <to = 7> (zeros)  n0 = Sub (n, n)  at = Unsqueeze (n0, minus)
    v0 = Gather <axis = 1> (v, col)  deep = Reshape (x, split)  count = Size (v)
    sizes = Concat <axis = 0> (n, rest0, m)
"""
MORE: Weights = {
    "d0": np.ones((4, 6)),
    "h2": np.ones((2, 12, 4)),
    "r2": np.ones((2, 12, 4)),
    "ln": np.ones(4),
    "nothing": np.zeros(0, np.float32),
    "two0": np.array([1]),
    "nought": np.array(0, np.float32),
    "col": np.array([0, 1]),
    "split": np.array([0, -1, 4, 1]),
    "rest0": np.array([3, 9]),
    "scalar1": np.array(1),
}


def graph_of(node: str, inner: str = INNER, head: str = HEAD) -> ir.Graph:
    """Return the graph in which a node makes y."""
    return ir.load(model(f"{head} => (y) {{ {inner}  y = {node} }}", WEIGHTS | MORE, opset=17)).graph


def feeds(n: int, m: int, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    shapes = {"x": (n, 3, 8, m), "other": (n, 3, 8, m), "s": (length, n, 4), "v": (n, 4)}
    return {name: rng.uniform(0.5, 1.5, shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("node", NODES)
def test_sizes_are_those_that_the_kernels_make(node: str) -> None:
    graph = graph_of(node)
    shapes, sizes = ShapeWalk(graph.model), dict[str, set[tuple[int, ...]]]()
    value = graph.values["y"]
    dims = shapes.dims(value)
    assert dims is not None
    runs = [
        reference.evaluate(graph.model, feeds(*each), ["y"])["y"].shape for each in ((4, 4, 2), (2, 6, 3), (6, 10, 4))
    ]
    for axis, dim in enumerate(dims):
        found = tuple(run[axis] for run in runs)
        if isinstance(dim, int):
            assert {*found} == {dim}
        else:
            sizes.setdefault(dim, set()).add(found)
    assert all(len(run) == len(dims) for run in runs)
    assert all(len(found) == 1 for found in sizes.values())
    assert all(found == {INPUTS[name]} for name, found in sizes.items() if name in INPUTS)


INPUTS = {"0:0": (4, 2, 6), "0:3": (4, 6, 10), "1:0": (4, 2, 6), "2:0": (2, 3, 4), "3:0": (4, 2, 6)}
"""The dynamic sizes of inputs, in the three runs."""


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Relu (x)", ("0:0", 3, 8, "0:3")),
        ("Add (x, three)", ("0:0", 3, 8, "0:3")),
        ("Conv <pads = [1, 1, 1, 1]> (x, w)", ("0:0", 5, 8, "0:3")),
        ("Conv <strides = [2, 1], pads = [1, 1, 1, 1]> (x, w)", ("0:0", 5, 4, "0:3")),
        ("MaxPool <kernel_shape = [3, 1], strides = [2, 1], ceil_mode = 1> (x)", ("0:0", 3, 4, "0:3")),
        ("Reshape (x, joined)", ("0:0", 24, "0:3")),
        ("Reshape (x, shape)", ("0:0", 3, 8, "0:3")),
        ("Expand (three, shape)", ("0:0", 3, 8, "0:3")),
        ("ConstantOfShape (pair)", ("0:0", 2)),
        ("Slice (x, zero, last, three_)", ("0:0", 3, 8, "0:3")),
        ("Gather <axis = 1> (x, i)", ("0:0", 2, 8, "0:3")),
        ("Resize (x, none, none, sizes)", ("0:0", 3, 9, "0:3")),
        ("LSTM <hidden_size = 4> (s, h, r)", ("2:0", 1, "2:1", 4)),
        ("Tile (x, repeats)", ("0:0", 6, 8, "0:3")),
    ],
)
def test_sizes_that_follow(node: str, expected: tuple[int | str, ...]) -> None:
    graph = graph_of(node)
    assert ShapeWalk(graph.model).dims(graph.values["y"]) == expected


@pytest.mark.parametrize(
    "node",
    [
        "MaxPool <kernel_shape = [2, 1], strides = [3, 1], pads = [0, 0, 2, 0], ceil_mode = 1> (x)",
        'MaxPool <kernel_shape = [2, 1], strides = [2, 1], auto_pad = "SAME_UPPER", ceil_mode = 1> (x)',
        'Conv <auto_pad = "SAME_UPPER", dilations = [2, 1]> (x, w)',
        "Slice (x, minus, last, two, minus)",
        "Resize (x, none, edge)",
    ],
)
def test_what_runtimes_count_differently_is_not_known(node: str) -> None:
    graph = graph_of(node)
    dims = ShapeWalk(graph.model).dims(graph.values["y"])
    assert dims is not None
    assert isinstance(dims[2], str)


def test_declarations_of_inner_values_are_not_believed() -> None:
    proto = model("(float[N,3] x) => (float[7,3] y) { a = Relu (x)  y = Neg (a) }", {})
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", TP.DOUBLE, [7, 3]))
    graph = ir.load(proto).graph
    shapes = ShapeWalk(graph.model)
    for name in "ay":
        assert shapes.dims(graph.values[name]) == ("0:0", 3)
        assert shapes.dtype(graph.values[name]) == TP.FLOAT


def test_one_name_of_two_inputs_is_two_sizes() -> None:
    graph = ir.load(model("(float[N] x, float[N] z) => (float[M] y) { y = Add (x, z) }", {})).graph
    dims = ShapeWalk(graph.model).dims(graph.values["y"])
    assert dims is not None
    assert dims[0] not in {"0:0", "1:0"}


def test_a_size_of_zero_is_one_that_an_exporter_did_not_know() -> None:
    graph = ir.load(model("(float[0,3] x) => (float[N,3] y) { y = Neg (x) }", {})).graph
    assert ShapeWalk(graph.model).dims(graph.values["y"]) == ("0:0", 3)


def test_a_damaged_node_ends_nothing() -> None:
    body = "a = Conv (x, x, x, x)  b = Reshape <axis = 1> (x, a)  c = Slice (a, b)  d = Neg (x)  y = Add (d, d)"
    graph = ir.load(model(f"(float[N,3] x) => (float[N,3] y) {{ {body} }}", {})).graph
    assert ShapeWalk(graph.model).dims(graph.values["y"]) == ("0:0", 3)


BRANCHES = """
    (float[N,4] x, bool c) => (float[P,Q] y) {{
        a = If (c) <
            then_branch = t () => (float[A,B] p) {{ p = {one} }},
            else_branch = e () => (float[C,D] q) {{ q = {other} }}
        >
        y = Relu (a)
    }}
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Relu (x)", "Neg (x)", ("0:0", 4)),
        ("Relu (x)", "Concat <axis = 1> (x, x)", ("0:0", None)),
        ("Relu (x)", "Flatten <axis = 0> (x)", (None, None)),
        ("Relu (x)", "Squeeze (x)", None),
    ],
)
def test_of_an_if_what_its_branches_have_in_common(
    one: str, other: str, expected: tuple[int | str | None, ...] | None
) -> None:
    graph = ir.load(model(BRANCHES.format(one=one, other=other), {})).graph
    dims = ShapeWalk(graph.model).dims(graph.values["y"])
    known = dims if dims is None else tuple(None if isinstance(dim, str) and dim[0] == "?" else dim for dim in dims)
    assert known == expected


def test_an_operator_that_takes_one_rank_says_which_branch_is_taken() -> None:
    text = """(float[N,8,4] x, bool c) => (float[A,B,C,D] y) {
        a = If (c) <
            then_branch = t () => (float[A] p) { p = Identity (x) },
            else_branch = e () => (float[B] q) { q = Unsqueeze (x, zero) }
        >
        b = Relu (a)  y = LSTM <hidden_size = 4> (b, h, r) }"""
    graph = ir.load(model(text, {name: WEIGHTS[name] for name in ("h", "r", "zero")})).graph
    assert ShapeWalk(graph.model).dims(graph.values["a"]) == ("0:0", 8, 4)
    unread = text.replace("y = LSTM", "z = LSTM").replace(
        "LSTM <hidden_size = 4> (b, h, r)", "LSTM <hidden_size = 4> (b, h, r)  y = Neg (b)"
    )
    graph = ir.load(model(unread, {name: WEIGHTS[name] for name in ("h", "r", "zero")})).graph
    assert ShapeWalk(graph.model).dims(graph.values["a"]) is None


def test_of_a_loop_only_types_are_known() -> None:
    text = """(float[N] x, int64 n, bool c) => (float[M] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool go, float[K] v) => (bool on, float[J] w) {
            on = Identity (go)  s = Add (v, v)  w = Concat <axis = 0> (s, v) }> }"""
    graph = ir.load(model(text, {})).graph
    shapes = ShapeWalk(graph.model)
    value = graph.values["y"]
    assert shapes.dims(value) is None
    assert shapes.dtype(value) == TP.FLOAT


def test_a_function_is_followed_for_each_call() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
    g (float[N,3] x, float[5,3] z) => (float[A,B] y, float[C,D] w) { y = own.f (x)  w = own.f (z) }
    <domain: "own", opset_import: ["" : 13]> f (v) => (o) { s = Shape (v)  a = Neg (v)  o = Reshape (a, s) }"""
    graph = ir.load(onnx.parser.parse_model(text)).graph
    shapes = ShapeWalk(graph.model)
    assert shapes.dims(graph.values["y"]) == ("0:0", 3)
    assert shapes.dims(graph.values["w"]) == (5, 3)
    (function,) = graph.model.functions
    assert shapes.dims(function.values["a"]) is None


def test_types_are_stated_where_a_file_states_none() -> None:
    proto = model("(float[N,3] x) => (y, k) { a = Relu (x)  y = Cast <to = 10> (a)  k = Shape (x) }", {})
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", TP.FLOAT, ["batch", 3]))
    loaded = ir.load(proto)
    state_types(loaded)
    assert [loaded.graph.values[name].dtype for name in "ayk"] == [TP.FLOAT, TP.FLOAT16, TP.INT64]
    assert [loaded.graph.values[name].shape for name in "ayk"] == [("batch", 3), ("N", 3), (2,)]
    assert [info.name for info in loaded.proto.graph.value_info] == ["a"]


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("(float[2] x) => (float16 y) { s = SplitToSequence (x) y = SequenceAt (s, i) }", TP.FLOAT),
        (
            """(double[2] x) => (float16 y) { s = SequenceConstruct (x, x) e = SequenceErase (s, i)
               f = SequenceInsert (e, x) g = Identity (f) z = SequenceAt (g, i) y = Neg (z) }""",
            TP.DOUBLE,
        ),
        ("(seq(double[2]) s) => (float16 y) { y = ConcatFromSequence <axis = 0> (s) }", TP.DOUBLE),
        ("(float[2] x) => (float16 y) { s = SequenceEmpty <dtype = 11> () y = SequenceAt (s, i) }", TP.DOUBLE),
        ("(double[2] x) => (double y) { s = SequenceEmpty () y = SequenceAt (s, i) }", TP.FLOAT),
        (
            """(float[2] x, bool k) => (float16 y) { s = SplitToSequence (x)
               r = If (k) <then_branch = a () => (seq(float[1]) p) { p = Identity (s) },
                           else_branch = b () => (seq(float[1]) q) { q = SequenceErase (s, i) }>
               y = SequenceAt (r, i) }""",
            TP.FLOAT,
        ),
        (
            """(float[2] x, double[2] z, bool k) => (float16 y) {
               r = If (k) <then_branch = a () => (seq(float[1]) p) { p = SequenceConstruct (x) },
                           else_branch = b () => (seq(float[1]) q) { q = SequenceConstruct (z) }>
               y = SequenceAt (r, i) }""",
            None,
        ),
        (
            """(float[2] x, int64 n, bool k) => (float16 y) { s = SequenceConstruct (x)
               r = Loop (n, k, s) <body = b (int64 j, bool c, seq(float[2]) a) => (bool d, seq(float[2]) q)
                                          { d = Identity (c) q = SequenceInsert (a, x) }>
               y = SequenceAt (r, i) }""",
            TP.FLOAT,
        ),
        ("(float[2] x) => (float16 y) { s = Other (x) y = SequenceAt (s, i) }", None),
    ],
)
def test_types_of_the_elements_of_sequences(body: str, dtype: int | None) -> None:
    graph = ir.load(model(body, {"i": np.array(0)})).graph
    assert ShapeWalk(graph.model).dtype(graph.values["y"]) == dtype


def test_axes_that_stand_twice_are_no_shape() -> None:
    text = "(float[N,2] x) => (float[A,B,C,D] y) { y = Unsqueeze (x, axes) }"
    graph = ir.load(model(text, {"axes": np.array([2, 2])})).graph
    assert ShapeWalk(graph.model).dims(graph.values["y"]) != ("N", 2, 1, 1)


@pytest.mark.parametrize(("attribute", "bins"), [("", 5), ("<onesided = 1>", 5), ("<onesided = 0>", 8)])
@pytest.mark.parametrize("length", ["step, window", "step, , eight"])
def test_the_frames_of_a_signal(attribute: str, bins: int, length: str) -> None:
    """Onnx's inference takes the default of onesided for 0."""
    text = f"(float[N,33,1] x) => (float[A,B,C,D] y) {{ y = STFT {attribute} (x, {length}) }}"
    weights = {"step": np.array(3), "window": np.ones(8, np.float32), "eight": np.array(8)}
    graph = ir.load(model(text, weights, opset=17)).graph
    assert (ShapeWalk(graph.model).dims(graph.values["y"]) or ())[1:] == (9, bins, 2)
