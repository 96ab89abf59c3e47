from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.inputs.shapes import (
    exchanged_sizes,
    is_broadcast_inside,
    longer,
    resized,
    sizes_beside,
    sizings,
)
from bnfold.verification.inputs.sized import fitted
from bnfold.verification.subgraphs.shapes import subgraph_shapes
from tests.verification.graphs import model


def test_sizes_of_one_choice_differ_pairwise_and_symbols_agree() -> None:
    sizing = sizings()[0]
    image = sizing.concrete(["N", 3, "H", "W"])
    assert len(set(image)) == 4
    assert sizing.concrete(["N", "H"]) == (image[0], image[2])
    sequence = sizing.concrete([None, None, None])
    assert len(set(sequence)) == 3


def test_other_sizes_at_some_places_leave_the_rest() -> None:
    assert resized({"x": (2, 3), "y": (3,), "z": ()}, {("x", 1): 5, ("y", 0): 0}) == {"x": (2, 5), "y": (0,), "z": ()}


def test_volumes_get_smaller_sides_than_images() -> None:
    image, volume = (sizings()[0].concrete(["N", 3, *sides]) for sides in (["H", "W"], ["D", "H", "W"]))
    assert int(np.prod(volume)) <= 4 * int(np.prod(image))


def attempts(body: str, weights: dict[str, Any], *names: str) -> list[dict[str, tuple[int, ...]]]:
    loaded = ir.load(model(body, weights))
    found = subgraph_shapes({name: loaded.graph.values[name] for name in names}, loaded.graph.nodes)
    return [trial.shapes for trial in found]


def test_regions_are_small_and_unlike_before_they_are_as_declared() -> None:
    channels, side, kernel = 6, 56, 5
    body = f"(float[1,{channels},{side},{side}] x) => (float[a,b,c,d] y) {{ y = Conv (x, W) }}"
    first, *_, last = attempts(body, {"W": np.ones((4, channels, kernel, kernel))}, "x")
    _, first_channels, height, width = first["x"]
    assert first_channels == channels
    assert height != width
    assert all(kernel < size < side / 2 for size in (height, width))
    assert last["x"] == (1, channels, side, side)


def test_windows_fit_one_after_the_other() -> None:
    body = (
        "(float[N,3,H,W] x) => (float[a,b,c,d] y)"
        " { a = Conv <strides = [2,2], dilations = [2,2]> (x, W)"
        "  b = MaxPool <kernel_shape = [3,3], strides = [2,2]> (a)"
        "  y = AveragePool <kernel_shape = [4,4]> (b) }"
    )
    first = attempts(body, {"W": np.ones((3, 3, 5, 5))}, "x")[0]["x"]
    for side in first[2:]:
        after_conv = windows(side, kernel=5, stride=2, dilation=2)
        after_max = windows(after_conv, kernel=3, stride=2)
        assert windows(after_max, kernel=4) >= 1


def windows(side: int, *, kernel: int, stride: int = 1, dilation: int = 1) -> int:
    """How many windows fit into a side."""
    return (side - dilation * (kernel - 1) - 1) // stride + 1


def test_what_strides_skip_is_tried_at_odd_sizes_too() -> None:
    for strides, other in (("[2,1]", True), ("[1,1]", False)):
        body = f"(float[N,3,H,W] x) => (float[a,b,c,d] y) {{ y = Conv <strides = {strides}> (x, W) }}"
        loaded = ir.load(model(body, {"W": np.ones((3, 3, 2, 2))}))
        trial = next(subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes))
        larger = {"x": (*trial.shapes["x"][:2], *(side + 1 for side in trial.shapes["x"][2:]))}
        assert trial.others == ((larger,) if other else ())


def test_operators_that_depend_on_sizes_are_tried_on_one_row_and_beyond_their_ends() -> None:
    body = "(float[N,3,H,W] x) => (float[a,b,c,d] y) { y = Slice (x, s, e, s) }"
    loaded = ir.load(model(body, {"s": np.array([2]), "e": np.array([50])}))
    trial = next(subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes))
    _odd, row, long, rows = trial.others
    assert row["x"] == (1, *trial.shapes["x"][1:])
    assert rows["x"] == (54, *trial.shapes["x"][1:]), "an even number, which the usual one is not"
    assert min(long["x"][2:]) > 50


def test_values_declared_alike_get_the_same_sizes() -> None:
    body = (
        "(float[N,4,H,W] x, float[N,4,H,W] z, float[N,4,1,1] g) => (float[a,b,c,d] y)"
        " { s = Add (x, z)  y = Mul (s, g) }"
    )
    first = attempts(body, {}, "x", "z", "g")[0]
    assert first["x"] == first["z"]
    assert first["g"][1:] == (4, 1, 1)


def test_unknown_ranks_are_those_of_neighbours_then_guessed() -> None:
    loaded = ir.load(model("(float[N,4,8,8] x, float[N] z) => (float[a,b,c,d] y) { y = Add (x, z) }", {}))
    values = loaded.graph.values
    assert values["z"].type is not None
    values["z"].type.tensor_type.ClearField("shape")
    tried = [trial.shapes for trial in subgraph_shapes({name: values[name] for name in ("x", "z")}, loaded.graph.nodes)]
    assert tried[0]["x"] == tried[0]["z"]
    assert {len(shapes["z"]) for shapes in tried} == {4, 3, 2, 1, 5}


def test_regions_too_large_to_feed_are_not_tried() -> None:
    tried = attempts("(float[64,3,1024,1024] x) => (float[a,b,c,d] y) { y = Relu (x) }", {}, "x")
    assert tried
    assert all(np.prod(shapes["x"]) < 1e6 for shapes in tried)


@pytest.mark.parametrize(("shape", "forced"), [("N,3,8,8", True), ("2,3,8,8", True), ("N,3,H,8", False)])
def test_declared_shapes_acquit_if_they_leave_no_choice(shape: str, forced: bool) -> None:
    loaded = ir.load(model(f"(float[{shape}] x) => (float[a,b,c,d] y) {{ y = Relu (x) }}", {}))
    tried = list(subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes))
    assert any(trial.passing_is_conclusive for trial in tried) is forced


def test_only_what_weights_dictate_is_fixed_in_a_region() -> None:
    """The channels, and the axis that the product sums over, which a Transpose puts last."""
    channels, summed, free = 6, 56, 8
    head = f"(float[2,{channels},{summed},{free}] x) => (float[a,b,c,d] y)"
    body = f"{head} {{ t = Transpose <perm = [0,1,3,2]> (x)  y = MatMul (t, W) }}"
    tried = [sizes["x"] for sizes in attempts(body, {"W": np.ones((summed, 4))}, "x")]
    assert all(shape[1:3] == (channels, summed) for shape in tried)
    assert tried[0][3] < free


def test_sizes_at_which_a_reshape_loses_elements_do_not_fit() -> None:
    """Inference takes them all, and each takes an evaluation that ends there."""
    before = model("(float[A,6,B] x) => (float[C,D] y) { y = Reshape (x, t) }", {"t": np.array([5, 12])})
    assert [size for size in range(1, 9) if fitted(ir.load(before), {"x": [size, 6, 2]}) is not None] == [5]
    assert fitted(ir.load(before), {"x": ["A", 6, "B"]}) is not None


@pytest.mark.parametrize("nodes", ['y = Pad <mode = "reflect"> (x, p)', 'y = Pad <mode = "reflect"> (x, q)'])
def test_open_sizes_are_as_long_as_operators_need(nodes: str) -> None:
    """A reflection of 64 takes more than 64; what is computed with the input is found by trying longer ones."""
    weights = {"p": np.array([0, 64, 0, 64]), "h": np.array([32])}
    head = "q = Concat <axis = 0> (z, h2, z, h2)"
    body = f"z = Sub (h, h)  h2 = Add (h, h)  {head}  {nodes}" if "q" in nodes else nodes
    twice = f"a = Neg (x)  x2 = Neg (a)  {body.replace('(x,', '(x2,')}"
    before, after = (
        ir.load(model(f"(float[N,L] x) => (float[N,M] y) {{ {text} }}", weights, opset=13)) for text in (body, twice)
    )
    verdict = verify(before, after, depth="full", runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "float64"), verdict.reason


def test_an_axis_of_size_1_may_be_as_long_as_those_beside_it() -> None:
    shapes = {"x": (1, 1, 3), "z": (5, 7, 4), "b": (2, 1)}
    assert sizes_beside(shapes, [("x", 1)], {(6, 2), (9, 1), (1, 2)}) == [2, 6, 7]
    assert sizes_beside(shapes, [("x", 1), ("b", 0)], ()) == []
    assert sizes_beside(shapes, [("x", 0)], ()) == [5]


def test_dynamic_sizes_of_one_input_are_exchanged_and_lengthened() -> None:
    shapes = {"x": (1, 7, 6), "z": (6, 2)}
    places = [[("x", 0)], [("x", 2), ("z", 0)], [("z", 1)]]
    assert [*exchanged_sizes(shapes, places)] == [{"x": (6, 7, 1), "z": (1, 2)}]
    first, second, *others = longer(shapes, places[1])
    assert (first, second) == ({"x": (1, 7, 7), "z": (7, 2)}, {"x": (1, 7, 12), "z": (12, 2)})
    assert [made["x"][2] for made in others] == [8, 9, 10, 11, 12]


@pytest.mark.parametrize(("length", "is_open", "expected"), [(2, "L", True), (5, "L", False), (2, "2", False)])
def test_a_computed_axis_that_is_broadcast_hides_numbers(length: int, is_open: str, expected: bool) -> None:
    """One that is always broadcast hides none."""
    body = f"(float[N,4,{is_open}] x, float[N,2,4] z) => (float[a,b,c] y) {{ v = Conv (x, k)  y = Sub (z, v) }}"
    loaded = ir.load(model(body, {"k": np.ones((2, 4, 2))}))
    at_sizes = fitted(loaded, {"x": (3, 4, length), "z": (3, 2, 4)})
    assert at_sizes is not None
    assert is_broadcast_inside(at_sizes, loaded) == expected
