"""What operators tell of dims that a model leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bnfold
from bnfold import analysis, ir
from bnfold.verification.inputs.sized import fitted, followed
from bnfold.verification.inputs.unification import UnifiedDims, learn_shapes
from tests.verification.graphs import model

Shape = list[int | str | None]


def known(value: Any) -> Shape | None:
    """Names that were made up are nobody's."""
    return None if value is None else [None if isinstance(dim, str) and dim[0] in "?u" else dim for dim in value]


def told(body: str, weights: dict[str, Any], *, opset: int = 13, rank_known: bool = True) -> dict[str, Shape | None]:
    loaded = ir.load(model(body, weights, opset=opset))
    inputs = [value for value in loaded.graph.inputs if not value.is_initializer]
    shapes = followed(loaded, {value.name: value.shape if rank_known else None for value in inputs}).shapes
    return {name: known(shape) for name, shape in shapes.items()}


FREE = "(float[A,B,C,D] x) => (float[E] y)"


@pytest.mark.parametrize(
    ("nodes", "weight", "wanted"),
    [
        ("y = Conv <group = 3> (x, W)", (6, 4, 3, 3), [None, 12, None, None]),
        ("y = ConvTranspose <group = 2> (x, W)", (6, 4, 3, 3), [None, 6, None, None]),
        ("y = Gemm (x, W)", (5, 7), [None, 5]),
        ("y = Gemm <transB = 1> (x, W)", (5, 7), [None, 7]),
        ("y = Gemm <transA = 1> (x, W)", (5, 7), [5, None]),
        ("y = MatMul (x, W)", (5, 7), [None, 5]),
        ("y = MatMul (W, x)", (5, 7), [7, None]),
        ("y = BatchNormalization (x, W, W, W, W)", (9,), [None, 9, None, None]),
        ("y = InstanceNormalization (x, W, W)", (9,), [None, 9, None, None]),
        ("r = Relu (x)  y = Gemm (r, W)", (5, 7), [None, 5]),
        ("s = Selu (x)  r = Neg (s)  y = Conv (r, W)", (5, 7, 3, 3), [None, 7, None, None]),
        ("a = Add (x, W)  y = LRN <size = 3> (a)", (1, 7, 1, 1), None),
        ("y = Exp (x)", (1,), None),
    ],
)
def test_weights_tell_ranks_and_channels(nodes: str, weight: tuple[int, ...], wanted: Shape | None) -> None:
    assert told(f"{FREE} {{ {nodes} }}", {"W": np.ones(weight)}, rank_known=False)["x"] == wanted


@pytest.mark.parametrize("rank_known", [True, False])
def test_parameters_for_activations_tell_all_but_the_batch(rank_known: bool) -> None:
    body = "(float[A,B,C,D] x) => (float[E] y) { y = BatchNormalization <spatial = 0> (x, W, W, W, W) }"
    shape = told(body, {"W": np.ones((4, 7, 3))}, opset=8, rank_known=rank_known)["x"]
    assert shape is not None
    assert shape[1:] == [4, 7, 3]


def test_a_damaged_node_tells_nothing() -> None:
    assert told(f"{FREE} {{ y = Conv <group = -3> (x, W) }}", {"W": np.ones((6, 4, 3, 3))}) == {"x": [*"ABCD"]}


@pytest.mark.parametrize("operator", ["Add (x, W)", "Mul (W, x)", "Max (x, W, x)", "Where (c, x, W)", "Expand (x, S)"])
@pytest.mark.parametrize(
    ("declared", "shape", "wanted"),
    [
        ("A,B,C", (7,), ["A", "B", 7]),
        ("A,B,C", (4, 1, 7), [4, "B", 7]),
        ("A,1,C", (5, 7), ["A", 1, 7]),
        ("A", (5, 7), [7]),
        ("A,B,C", (1,), ["A", "B", "C"]),
    ],
)
def test_what_is_broadcast_tells_open_axes(operator: str, declared: str, shape: Any, wanted: Shape) -> None:
    body = f"(float[{declared}] x, bool[1] c) => (float[E] y) {{ y = {operator} }}"
    assert told(body, {"W": np.ones(shape), "S": np.array(shape)})["x"] == wanted


@pytest.mark.parametrize(
    ("axis", "shape", "wanted"),
    [(1, (7, 5), ["A", 7, 5, "D"]), (2, (7,), ["A", "B", 7, "D"]), (3, (7, 5), ["A", "B", "C", "D"])],
)
def test_an_old_weight_stands_at_the_axis_that_its_reader_names(axis: int, shape: Any, wanted: Shape) -> None:
    body = f"{FREE} {{ m = Mul <axis = {axis}, broadcast = 1> (x, W)  y = Relu (m) }}"
    assert told(body, {"W": np.ones(shape)}, opset=6)["x"] == wanted


def test_behind_operators_of_old_opsets_weights_tell_as_well() -> None:
    body = f"{FREE} {{ n = Neg (x)  b = BatchNormalization (n, S, S, S, S)  y = PRelu (b, S) }}"
    assert told(body, {"S": np.ones(5)}, opset=1)["x"] == ["A", 5, "C", "D"]


@pytest.mark.parametrize(
    ("nodes", "weights", "wanted"),
    [
        ("t = Transpose <perm = [0,2,3,1]> (x)  y = MatMul (t, W)", {"W": (6, 4)}, ["A", 6, "C", "D"]),
        ("c = Concat <axis = 3> (x, V)  y = MatMul (c, W)", {"V": (2, 3, 4, 5), "W": (12, 4)}, [2, 3, 4, 7]),
        ("a, b = Split <axis = 1> (x, s)  y = Add (a, W)", {"W": (3, 2, 4, 5)}, [3, 6, 4, 5]),
        ("f = Reshape (x, r)  y = Add (x, W)", {"W": (4, 2, 2)}, [5, 4, 2, 2]),
        ("c = Conv (x, K)  y = Add (c, W)", {"K": (6, 2, 1, 1), "W": (6, 4, 5)}, ["A", 2, 4, 5]),
        ("c = Conv <pads = [1,0,1,0]> (x, K)  y = Add (c, W)", {"K": (6, 2, 3, 3), "W": (6, 4, 5)}, ["A", 2, 4, "D"]),
        ("c = Conv <strides = [2,1]> (x, K)  y = Add (c, W)", {"K": (6, 2, 1, 1), "W": (6, 4, 5)}, ["A", 2, "C", 5]),
        (
            'm = MaxPool <kernel_shape = [3,3], auto_pad = "SAME_UPPER"> (x)  y = Add (m, W)',
            {"W": (4, 5)},
            ["A", "B", 4, 5],
        ),
        ("g = GlobalAveragePool (x)  y = Mul (g, W)", {"W": (1, 4, 1, 1)}, ["A", 4, "C", "D"]),
        ('y = Einsum <equation = "abcd,ce->abde"> (x, W)', {"W": (6, 4)}, ["A", "B", 6, "D"]),
        ("y = DequantizeLinear <axis = 2> (x, W)", {"W": (6,)}, ["A", "B", 6, "D"]),
        ("y = LayerNormalization <axis = 2> (x, W)", {"W": (6, 4)}, ["A", "B", 6, 4]),
        ("y = GridSample (x, W)", {"W": (6, 4, 5, 2)}, [6, "B", "C", "D"]),
    ],
)
def test_what_other_operators_tell(nodes: str, weights: dict[str, Any], wanted: Shape) -> None:
    held = {name: np.ones(shape) for name, shape in weights.items()}
    held |= {"s": np.array([2, 4]), "r": np.array([2, 40])}
    assert told(f"{FREE} {{ {nodes} }}", held, opset=17)["x"] == wanted


def test_inputs_tell_each_other() -> None:
    body = "(float[A,B] x, float[C,D] z, float[E] b) => (float[F,G] y) { m = MatMul (x, z)  y = Add (m, b) }"
    found = told(body, {})
    assert found["x"] is not None
    assert found["z"] is not None
    assert found["x"][1] == found["z"][0]
    assert found["z"][1] == (found["b"] or [])[0]


def test_a_state_is_as_large_as_the_weights_of_its_network() -> None:
    body = "(float[S,B,I] x, float[D,C,H] h) => (float[s,d,b,k] y) { y = GRU <hidden_size = 5> (x, W, R, n, n, h) }"
    found = told(body.replace("n, n", ", "), {"W": np.ones((1, 15, 4)), "R": np.ones((1, 15, 5))})
    assert found["x"] == ["S", "B", 4] or found["x"] == ["S", "C", 4]
    assert found["h"] == [1, (found["x"] or [])[1], 5]


def test_what_is_declared_wins() -> None:
    body = "(float[2,7] x) => (float[E] y) { y = MatMul (x, W) }"
    assert told(body, {"W": np.ones((5, 4))}) == {"x": [2, 7]}


def test_dims_that_exporters_wrote_as_zero_are_open() -> None:
    assert told("(float[0,5] x) => (float[E] y) { y = MatMul (x, W) }", {"W": np.ones((5, 4))}) == {"x": [None, 5]}


def test_a_convolution_tells_what_it_makes() -> None:
    for operator, wanted in (("Conv", [None, 6, None, None]), ("ConvTranspose", [None, 4, None, None])):
        loaded = ir.load(model(f"{FREE} {{ c = {operator} (x, W)  y = Relu (c) }}", {"W": np.ones((6, 4, 3, 3))}))
        dims = UnifiedDims(declared=False)
        dims.follow([*loaded.nodes()])
        assert known(dims.of(loaded.graph.values["c"])) == wanted


def test_what_is_told_is_noted_and_the_file_left_alone() -> None:
    loaded = ir.load(model(f"{FREE} {{ a = Foo (x)  r = Relu (a)  y = Conv (r, W) }}", {"W": np.ones((6, 4, 3, 3))}))
    before = loaded.proto.SerializeToString()
    analysis.infer_shapes(loaded)
    learn_shapes(loaded)
    assert loaded.graph.values["a"].shape == (None, 4, None, None)
    assert loaded.proto.SerializeToString() == before


def test_sizes_that_do_not_fit_are_known_without_running_them() -> None:
    body = "(float[N,3,H,W] x) => (float[a,b] y) { c = Conv (x, K)  f = Flatten (c)  y = Gemm (f, V) }"
    loaded = ir.load(model(body, {"K": np.ones((2, 3, 3, 3)), "V": np.ones((2 * 8 * 10, 4))}))
    assert fitted(loaded, {"x": (7, 3, 10, 12)}) is not None
    assert fitted(loaded, {"x": (7, 3, 10, 10)}) is None


@pytest.mark.parametrize(
    "body",
    [
        "(float[A,B,C,D] x) => (float[E] y) { s = Selu (x)  y = Conv (s, W) }",
        "(float[A,B,C,D] x, float[E,F,G,H] z) => (float[I] y) { s = Add (x, z)  y = Conv (s, W) }",
        "(float[A,B,C,D] x) => (float[E] y) { e = Expand (x, S)  y = Conv (e, W) }",
    ],
)
def test_models_run_whose_channels_follow_from_the_first_weight(body: str, tmp_path: Any) -> None:
    import onnx

    path = str(tmp_path / "model.onnx")
    onnx.save(model(body, {"W": np.ones((4, 37, 3, 3)), "S": np.array([1, 37, 1, 23])}), path)
    verdict = bnfold.verify(path, path, options=bnfold.VerifyOptions(runtime="none"))
    assert (verdict.status, verdict.decided_by) == ("verified", "float64")


def test_a_recurrent_operator_tells_all_its_sizes() -> None:
    body = (
        "(float[s,3,4] x, float[a,b,c] W, float[d,e,f] R, float[g,h] B, int32[i] n, float[j,k,l] H, float[m,o,p] C,"
        ' float[q,r] P) => (float[t,u,v,w] y) { y = LSTM <hidden_size = 5, direction = "bidirectional">'
        " (x, W, R, B, n, H, C, P) }"
    )
    state: Shape = [2, 3, 5]
    wanted = {"W": [2, 20, 4], "R": [2, 20, 5], "B": [2, 40], "n": [3], "H": state, "C": state, "P": [2, 15]}
    assert told(body, {}, rank_known=True) == {"x": ["s", 3, 4], **wanted}


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("y = GatherElements (x, i)", {"i": [None, None, None]}),
        ("y = ScatterElements (x, i, u)", {"i": [None, None, None], "u": [None, None, None]}),
        ("k = Constant <value = int64[1,2] {0, 1}> ()  y = ScatterND (x, k, u)", {"u": [1, 4]}),
    ],
)
def test_what_is_placed_has_the_shape_of_its_places(nodes: str, wanted: dict[str, Shape]) -> None:
    rest = {"i": "int64[A,B,C] i", "u": "float[A] u"}
    body = f"(float[2,3,4] x, {', '.join(rest[name] for name in wanted)}) => (float[Q] y) {{ {nodes} }}"
    shapes = followed(ir.load(model(body, {})), {"x": [2, 3, 4], **dict.fromkeys(wanted)}).shapes
    assert {name: known(shapes[name]) for name in wanted} == wanted


def test_a_size_that_no_file_can_hold_is_open() -> None:
    both = model("(float[N] x, float[M] z) => (float[O] y) { y = Concat <axis = 0> (x, z) }", {})
    assert followed(ir.load(both), {"x": [2**63], "z": [None]}).shapes["z"] is not None


def test_a_number_beside_a_value_of_unknown_rank_does_not_make_it_a_number() -> None:
    """Half of something is often what GELU makes; the MatMul behind it has as many axes as that."""
    nodes = "r = Reshape (x, s)  h = Mul (r, half)  m = MatMul (h, W)  y = Add (b, m)"
    body = f"(float[A,B,4] x, int64[R] s) => (y) {{ {nodes} }}"
    loaded = ir.load(model(body, {"half": np.array(0.5), "W": np.ones((4, 5)), "b": np.ones(5)}))
    analysis.infer_shapes(loaded)
    learn_shapes(loaded)
    values = loaded.graph.values
    assert [values[name].shape for name in ("r", "h", "m", "y")] == [None] * 4
