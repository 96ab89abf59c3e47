"""A model tried on shapes alone: what no numbers can make run is refused, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from bnfold import ir, reference
from bnfold.reference import trial
from bnfold.reference.outlines import has_outline
from tests.reference.recorded import Case, node_cases, stored_cases

HEAD = '<ir_version: 8, opset_import: ["": %d, "me": 1]> g'
Shape = tuple[int, ...]


def load(body: str, inputs: str = "float[N,M] x", stored: str = "", *, opset: int = 17) -> ir.Model:
    text = f"{HEAD % opset} ({inputs}) => (float y) <{stored}> {{ {body} }}"
    proto = onnx.parser.parse_model(text)
    for info in proto.graph.output:
        info.type.tensor_type.ClearField("shape")
    return ir.load(proto)


def numbers(shape: Shape) -> str:
    return ", ".join(["1"] * int(np.prod(shape)))


def stored(name: str, *shape: int) -> str:
    return f"float[{','.join(map(str, shape))}] {name} = {{{numbers(shape)}}}"


def integers(name: str, *values: int) -> str:
    return f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}"


IMAGE = "float[N,C,H,W] x"
CONV = "y = Conv (x, w)", IMAGE, stored("w", 4, 3, 3, 3)
BATCHNORM = "y = BatchNormalization (x, s, b, m, v)", IMAGE, ", ".join(stored(name, 3) for name in "sbmv")
LSTM = (
    "y, h, c = LSTM <hidden_size = 2> (x, w, r, , , h0)",
    "float[T,N,3] x",
    ", ".join((stored("w", 1, 8, 3), stored("r", 1, 8, 2), stored("h0", 1, 4, 2))),
)
FLAT = "f = Flatten (x) y = Gemm (f, k)", IMAGE, stored("k", 36, 2)
LEGAL_AND_NOT: list[tuple[tuple[str, ...], Shape, Shape]] = [
    (CONV, (1, 3, 8, 8), (1, 1, 8, 8)),
    (CONV, (1, 3, 3, 3), (1, 3, 2, 9)),
    (("y = ConvTranspose (x, w)", IMAGE, stored("w", 3, 4, 3, 3)), (1, 3, 1, 1), (1, 4, 1, 1)),
    (BATCHNORM, (2, 3, 1, 1), (2, 1, 4, 4)),
    (FLAT, (5, 4, 3, 3), (1, 4, 4, 4)),
    (("y = MatMul (x, k)", "float[N,M] x", stored("k", 5, 2)), (3, 5), (3, 4)),
    (("y = MatMul (x, k)", "float[N,T,4] x", stored("k", 2, 4, 5)), (1, 3, 4), (3, 3, 4)),
    (("y = MaxPool <kernel_shape = [3, 3]> (x)", IMAGE), (1, 3, 3, 3), (1, 3, 2, 3)),
    (("y = LpPool <kernel_shape = [3, 3]> (x)", IMAGE), (1, 3, 3, 3), (1, 3, 2, 3)),
    (("y = Reshape (x, t)", IMAGE, integers("t", 1, 36)), (1, 4, 3, 3), (8, 4, 3, 3)),
    (("y = Reshape (x, t)", IMAGE, integers("t", -1, 36)), (8, 4, 3, 3), (1, 4, 4, 4)),
    (("y = Concat <axis = 1> (x, k)", "float[N,M] x", stored("k", 1, 2)), (1, 7), (8, 7)),
    (("y = Add (x, k)", "float[N,M] x", stored("k", 4, 3)), (1, 3), (2, 3)),
    (("y = Where (p, x, k)", "float[N,M] x", f"bool[2,1] p = {{1, 0}}, {stored('k', 1, 3)}"), (2, 3), (4, 3)),
    (("y, z = Split <axis = 1> (x, t)", "float[N,M] x", integers("t", 2, 3)), (2, 5), (2, 6)),
    (("y = Expand (x, t)", "float[N,M] x", integers("t", 4, 3)), (1, 3), (2, 3)),
    (("y = Gather <axis = 1> (x, t)", "float[N,M] x", integers("t", 0, -3)), (2, 3), (2, 2)),
    (
        ("y = Einsum <equation = 'ij,jk->ik'> (x, k)".replace("'", '"'), "float[N,M] x", stored("k", 5, 2)),
        (2, 5),
        (2, 3),
    ),
    (LSTM, (5, 4, 3), (5, 3, 3)),
    (("y = Squeeze (x, t)", "float[N,M] x", integers("t", 0)), (1, 3), (2, 3)),
    (("y = Pad (x, t)", "float[N,M] x", integers("t", 0, -1, 0, -1)), (2, 2), (2, 1)),
    (("y, i = TopK (x, t)", "float[N,M] x", integers("t", 3)), (2, 3), (2, 2)),
    (("y = DepthToSpace <blocksize = 2> (x)", IMAGE), (1, 4, 2, 2), (1, 3, 2, 2)),
    (("y = PRelu (x, k)", IMAGE, stored("k", 3, 1, 1)), (1, 3, 2, 2), (1, 2, 2, 2)),
    (("y = InstanceNormalization (x, k, k)", IMAGE, stored("k", 4)), (1, 4, 2, 2), (1, 3, 2, 2)),
    (("y = LayerNormalization (x, k)", "float[N,M] x", stored("k", 4)), (2, 4), (2, 3)),
    (
        (
            "s = Shape (x) n = Gather (s, zero) t = Concat <axis = 0> (n, k) y = Reshape (x, t)",
            IMAGE,
            f"{integers('zero', 0)}, {integers('k', 36)}",
        ),
        (8, 4, 3, 3),
        (8, 4, 4, 4),
    ),
    (
        ("u = Resize (x, , q) y = Add (u, k)", IMAGE, f"float[4] q = {{1, 1, 2, 2}}, {stored('k', 1, 1, 8, 8)}"),
        (2, 3, 4, 4),
        (2, 3, 5, 5),
    ),
]


@pytest.mark.parametrize(("parts", "legal", "illegal"), LEGAL_AND_NOT)
def test_the_first_node_that_cannot_run_is_named(parts: tuple[str, ...], legal: Shape, illegal: Shape) -> None:
    model = load(*parts)
    assert reference.try_shapes(model, {"x": legal}) == reference.ShapeTrial()
    found = reference.try_shapes(model, {"x": illegal})
    assert found.refusal is not None
    assert not found.untried
    assert found.refusal.reason
    with pytest.raises(reference.Misfit) as error:  # and so does a run
        reference.evaluate(model, {"x": np.ones(illegal, np.float32)})
    assert error.value.node == found.refusal.node.label
    reference.evaluate(model, {"x": np.ones(legal, np.float32)})


@pytest.mark.parametrize(
    ("parts", "shape"),
    [
        (("y = Conv <auto_pad = 'SAME_UPPER'> (x, w)".replace("'", '"'), *CONV[1:]), (1, 3, 1, 1)),
        (("y = Conv <pads = [1, 1, 1, 1]> (x, w)", *CONV[1:]), (1, 3, 1, 1)),
        (("y = MaxPool <kernel_shape = [3, 3], ceil_mode = 1, strides = [2, 2]> (x)", IMAGE), (1, 3, 4, 4)),
        (("y = Slice (x, a, b)", "float[N,M] x", f"{integers('a', 0, 50)}, {integers('b', 99, 99)}"), (2, 3)),
        (("y = Add (x, k)", "float[N,M] x", stored("k", 1, 3)), (8, 3)),
        (("y = Reshape (x, t)", IMAGE, integers("t", 1, -1)), (8, 4, 3, 3)),
        (("y = Tile (x, t)", "float[N,M] x", integers("t", 2, 1)), (2, 3)),
        (("y = GlobalAveragePool (x)", IMAGE), (1, 3, 1, 1)),
        (("e = Gather (k, x) y = Relu (e)", "int64[N,M] x", stored("k", 7, 4)), (2, 9)),
    ],
)
def test_what_looks_alike_and_is_legal_passes(parts: tuple[str, ...], shape: Shape) -> None:
    assert reference.try_shapes(load(*parts), {"x": shape}) == reference.ShapeTrial()


def test_what_a_node_gets_is_written_down() -> None:
    found = reference.try_shapes(load("y = Reshape (x, t)", IMAGE, integers("t", 1, 36)), {"x": (8, 4, 3, 3)})
    assert found.refusal is not None
    assert found.refusal.inputs == (("x", "(8, 4, 3, 3)"), ("t", "[1, 36]"))


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        ("y = Reshape (x, t) z = Conv (y, x)", "float[N,M] x, int64[2] t", "depend on numbers"),
        ("y = NonZero (x)", "float[N,M] x", "depend on numbers"),
        ("y = me.Mine (x)", "float[N,M] x", "no reference implementation"),
        ("y = Compress <axis = 0> (x, t)", "float[N,M] x, bool[2] t", "depend on numbers"),
        ("y = TopK (x, t)", "float[N,M] x, int64[1] t", "depend on numbers"),
        ("y = NonMaxSuppression (x, x)", "float[N,M,4] x", "depend on numbers"),
        ("y = AffineGrid (x, t)", "float[N,2,3] x, int64[4] t", "depends on numbers"),
    ],
)
def test_what_depends_on_numbers_is_not_refused(body: str, inputs: str, why: str) -> None:
    model = load(body, inputs, opset=20)
    shapes = {
        value.name: tuple(dim if isinstance(dim, int) else 2 for dim in value.shape or ())
        for value in model.graph.inputs
    }
    found = reference.try_shapes(model, shapes)
    assert found.refusal is None
    assert why in found.untried


def test_a_node_behind_what_cannot_be_tried_is_not_refused_and_one_beside_it_is() -> None:
    after = load("a = me.Mine (x) y = Add (a, k)", stored=stored("k", 4, 3))
    assert reference.try_shapes(after, {"x": (2, 3)}).refusal is None
    beside = load("a = me.Mine (x) b = Add (x, k) y = Add (a, b)", stored=stored("k", 4, 3))
    assert reference.try_shapes(beside, {"x": (2, 3)}).refusal is not None


BRANCH = "g () => (float %s) { %s }"
FITS, FAILS = "%s = Identity (x)", "%s = Reshape (x, t)"


def choice(condition: str, one: str, other: str) -> ir.Model:
    branches = f"then_branch = {BRANCH % ('p', one % 'p')}, else_branch = {BRANCH % ('q', other % 'q')}"
    return load(f"{condition} y = If <{branches}> (c)", stored=f"{integers('t', 1, 36)}, int64 three = {{3}}")


BY_SIZE = "s = Size (x) c = Greater (s, three)"
BY_NUMBERS = "r = ReduceSum <keepdims = 0> (x) w = Cast <to = 7> (r) c = Greater (w, three)"


@pytest.mark.parametrize(
    ("condition", "one", "other", "is_refused"),
    [
        (BY_SIZE, FITS, FAILS, False),
        (BY_SIZE, FAILS, FITS, True),
        (BY_NUMBERS, FITS, FAILS, False),
        (BY_NUMBERS, FAILS, FITS, False),
        (BY_NUMBERS, FAILS, FAILS, True),
        (BY_NUMBERS, FITS, FITS, False),
    ],
)
def test_a_branch_counts_if_it_is_taken(condition: str, one: str, other: str, is_refused: bool) -> None:
    found = reference.try_shapes(choice(condition, one, other), {"x": (2, 3)})
    assert (found.refusal is not None) == is_refused
    assert not found.untried


def test_branches_of_two_shapes_leave_it_unknown() -> None:
    flat = "%s = Flatten <axis = 0> (x)"
    model = choice(BY_NUMBERS, FITS, flat)
    assert reference.try_shapes(model, {"x": (2, 3)}) == reference.ShapeTrial()


LOOP = "g (int64 i, bool k, float a) => (bool o, float b) { o = Identity (k) b = MatMul (a, w) }"


@pytest.mark.parametrize(("trips", "width", "is_refused"), [(3, 3, False), (3, 4, True), (0, 4, False)])
def test_the_turns_of_a_loop_are_tried(trips: int, width: int, is_refused: bool) -> None:
    model = load(f"y = Loop <body = {LOOP}> (n, , x)", stored=f"int64 n = {{{trips}}}, {stored('w', 3, 3)}")
    assert (reference.try_shapes(model, {"x": (2, width)}).refusal is not None) == is_refused


def test_a_loop_that_numbers_end_is_not_tried() -> None:
    results = "r = ReduceMax <keepdims = 0> (a) o = Greater (r, z) b = Identity (a)"
    body = f"g (int64 i, bool k, float a) => (bool o, float b) {{ {results} }}"
    model = load(f"y = Loop <body = {body}> (n, , x)", stored="int64 n = {9}, float z = {0}")
    assert "depend on numbers" in reference.try_shapes(model, {"x": (2, 3)}).untried


def test_a_loop_around_what_cannot_be_tried_is_not_tried() -> None:
    body = LOOP.replace("MatMul (a, w)", "me.Mine (a)")
    model = load(f"y = Loop <body = {body}> (n, , x)", stored="int64 n = {2}")
    assert reference.try_shapes(model, {"x": (2, 3)}).untried


def test_what_a_scan_hands_to_its_body_has_no_numbers() -> None:
    body = "g (float s, float e) => (float s2, float o) { s2 = Add (s, e) o = MatMul (s2, w) }"
    model = load(
        f"f, y = Scan <num_scan_inputs = 1, body = {body}> (z, x)", stored=f"{stored('z', 4)}, {stored('w', 4, 2)}"
    )
    assert reference.try_shapes(model, {"x": (3, 4)}) == reference.ShapeTrial()
    assert reference.try_shapes(model, {"x": (3, 5)}).refusal is not None


def test_functions_are_entered() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "me": 1]> g (float[N,M] x) => (float[K,L] y) { y = me.Mine (x) }'
        ' <opset_import: ["": 17], domain: "me"> Mine (a) => (b)'
        " { t = Constant <value_ints = [1, 36]> () b = Reshape (a, t) }"
    )
    model = ir.load(proto)
    assert reference.try_shapes(model, {"x": (4, 9)}) == reference.ShapeTrial()
    assert reference.try_shapes(model, {"x": (4, 8)}).refusal is not None


def test_random_numbers_and_large_results_have_no_numbers() -> None:
    model = load("r = RandomNormalLike (x) b = Cast <to = 7> (r) y = Add (b, b)")
    assert reference.try_shapes(model, {"x": (2, 3)}) == reference.ShapeTrial()
    model = load("k = ConstantOfShape (t) y = Add (x, k)", stored=integers("t", 100, 100))
    assert reference.try_shapes(model, {"x": (1, 100)}) == reference.ShapeTrial()


def test_sequences_are_carried_along() -> None:
    body = "s = SplitToSequence <axis = 1> (x, t) y = ConcatFromSequence <axis = 1> (s)"
    assert reference.try_shapes(load(body, stored=integers("t", 2, 1)), {"x": (2, 3)}) == reference.ShapeTrial()
    model = load("s = SequenceConstruct (x, k) y = ConcatFromSequence <axis = 0> (s)", stored=stored("k", 1, 4))
    assert reference.try_shapes(model, {"x": (2, 3)}).refusal is not None


def test_a_large_weight_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.parser.parse_model(f"{HEAD % 17} (float[N,M] x) => (float[N,K] y) {{ y = MatMul (x, w) }}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((100, 100), np.float32), "w"))
    model = ir.load(proto)

    def read(*_: Any) -> Any:
        raise AssertionError("a weight was read")

    monkeypatch.setattr(type(model.graph.values["w"].tensor), "numpy", read)
    assert reference.try_shapes(model, {"x": (7, 100)}) == reference.ShapeTrial()


def test_the_sizes_of_an_input_may_be_unknown() -> None:
    assert reference.try_shapes(load("y = Add (x, k)", stored=stored("k", 4, 3)), {}) == reference.ShapeTrial()


def test_time_is_limited() -> None:
    found = reference.try_shapes(load("y = Relu (x)"), {"x": (2, 3)}, limit_seconds=-1.0)
    assert "too long" in found.untried


def test_a_damaged_model_is_not_refused_for_its_sizes() -> None:
    found = reference.try_shapes(load("y = Relu (nothing)"), {"x": (2, 3)})
    assert found.refusal is None
    assert "nothing" in found.untried


def test_functions_that_call_themselves_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr(trial._Trial, "run", run)
    assert "too deeply" in reference.try_shapes(load("y = Relu (x)"), {"x": (2, 3)}).untried


def cases() -> Iterator[Case]:
    yield from stored_cases()
    yield from node_cases()


@pytest.mark.large
def test_shapes_are_those_of_every_recorded_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """No legal node is refused, and what is said of a result is so."""
    results: dict[str, Any] = {}
    plain = trial._Trial.run

    def run(self: Any, graph: ir.Graph, environment: Any, wanted: Any, bindings: Any) -> list[Any]:
        found = plain(self, graph, environment, wanted, bindings)
        if graph is self.main:
            results.update(zip([value.name for value in wanted], found, strict=True))
        return found

    monkeypatch.setattr(trial._Trial, "run", run)
    known = 0
    for case in cases():
        try:
            model = ir.load(case.model)
            expected = reference.evaluate(model, case.feeds)
        except reference.CannotEvaluate:
            continue
        shapes = {name: np.shape(array) for name, array in case.feeds.items() if hasattr(array, "dtype")}
        results.clear()
        with np.errstate(all="ignore"):
            found = reference.try_shapes(model, shapes)
        assert found.refusal is None, (case.name, found)
        for name, result in results.items():
            if isinstance(result, np.ndarray):
                assert result.shape == np.shape(expected[name]), (case.name, name)
                assert has_outline(result) or np.array_equal(result, expected[name], equal_nan=result.dtype.kind == "f")
                known += 1
    assert known > 1000
