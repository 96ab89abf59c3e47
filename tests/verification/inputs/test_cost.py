from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.reference.work import NODE_SECONDS, PRODUCTS_A_SECOND
from bnfold.verification import verify
from bnfold.verification.inputs.cost import estimate, estimate_pair, memory_there_is, session_seconds
from bnfold.verification.inputs.sized import sized
from tests.verification.graphs import model

CHANNELS, FILTERS, GROUPS, KERNEL = 8, 16, 2, 3
CONV = f"(float[N,{CHANNELS},H,W] x) => (float[N,{FILTERS},P,Q] y) {{ y = Conv <group = {GROUPS}> (x, W) }}"
WEIGHT = {"W": np.ones((FILTERS, CHANNELS // GROUPS, KERNEL, KERNEL))}
BATCH, HEIGHT, WIDTH = 2, 34, 50
IMAGES = (BATCH, CHANNELS, HEIGHT, WIDTH)
RESULTS = BATCH * FILTERS * (HEIGHT - KERNEL + 1) * (WIDTH - KERNEL + 1)
CONV_PRODUCTS = RESULTS * KERNEL * KERNEL * CHANNELS // GROUPS


def test_products_of_a_convolution_are_counted() -> None:
    cost = estimate(sized(ir.load(model(CONV, WEIGHT)), {"x": IMAGES}))
    expected = CONV_PRODUCTS / PRODUCTS_A_SECOND
    assert expected < cost.seconds < 3 * expected + NODE_SECONDS
    assert cost.memory >= np.dtype(np.float64).itemsize * RESULTS


def test_products_of_a_matmul_are_counted() -> None:
    rows, inner, columns = 500, 300, 400
    weights = {"W": np.ones((inner, columns))}
    matmul = ir.load(model("(float[N,K] x) => (float[N,M] y) { y = MatMul (x, W) }", weights))
    assert estimate(sized(matmul, {"x": (rows, inner)})).seconds > rows * inner * columns / PRODUCTS_A_SECOND


def test_products_of_a_transposed_convolution_are_counted() -> None:
    """Every element of the input meets the whole kernel of each of the filters."""
    filters, kernel, side = 4, 2, 20
    body = f"(float[N,{CHANNELS},H,W] x) => (float[N,{filters},P,Q] y) {{ y = ConvTranspose <strides = [2,2]> (x, W) }}"
    transposed = ir.load(model(body, {"W": np.ones((CHANNELS, filters, kernel, kernel))}))
    elements = CHANNELS * side * side
    cost = estimate(sized(transposed, {"x": (1, CHANNELS, side, side)}))
    assert cost.seconds > elements * filters * kernel * kernel / PRODUCTS_A_SECOND


def test_products_of_recurrent_operators_are_counted_for_each_step() -> None:
    steps, batch, features, hidden = 500, 2, 30, 40
    gates = 4 * hidden
    head = f"(float[N,{batch},{features}] x) => (float[M,1,{batch},{hidden}] y)"
    weights = {"w": np.ones((1, gates, features)), "r": np.ones((1, gates, hidden))}
    lstm = ir.load(model(f"{head} {{ y = LSTM <hidden_size = {hidden}> (x, w, r) }}", weights))
    products = steps * batch * gates * (features + hidden)
    seconds = estimate(sized(lstm, {"x": (steps, batch, features)})).seconds
    assert products / PRODUCTS_A_SECOND < seconds < 2 * products / PRODUCTS_A_SECOND + 1e-3


def test_what_inference_does_not_know_costs_what_took_its_place_does() -> None:
    old = model(
        CONV.replace("y = Conv", "c = Crop <border = [1, 1, 1, 1]> (x) y = Conv").replace("(x, W)", "(c, W)"),
        WEIGHT,
        opset=8,
    )
    new = model(CONV.replace("y = Conv", "c = Relu (x) y = Conv").replace("(x, W)", "(c, W)"), WEIGHT)
    shapes = {"x": IMAGES}
    before, after = sized(ir.load(old), shapes), ir.load(new)
    assert estimate(before).seconds < CONV_PRODUCTS / PRODUCTS_A_SECOND < estimate_pair(before, after, shapes).seconds


def test_the_model_is_left_alone() -> None:
    loaded = ir.load(model(CONV, WEIGHT))
    estimate(sized(loaded, {"x": (2, 8, 34, 50)}))
    assert loaded.graph.inputs[0].shape == ("N", 8, "H", "W")


def test_models_beyond_the_budget_are_compared_in_parts() -> None:
    loaded = ir.load(model(CONV, WEIGHT))
    changed = ir.load(model(CONV, {"W": WEIGHT["W"] * 1.5}))
    shape = {"x": (64, 8, 2000, 2000)}
    same = verify(loaded, loaded, inputs=shape, runtime="none", budget_seconds=5.0)
    assert (same.status, same.decided_by) == ("verified", "local")
    assert same.reason == "nothing that is computed has changed"
    assert verify(loaded, changed, inputs=shape, runtime="none", budget_seconds=5.0).status == "failed"


def test_to_open_a_model_of_twice_as_many_nodes_takes_four_times_as_long() -> None:
    def chain(length: int) -> ir.Model:
        steps = "  ".join(f"x{number + 1} = Neg (x{number})" for number in range(length))
        return ir.load(model(f"(float[N] x0) => (float[N] x{length}) {{ {steps} }}", {}))

    one, two = session_seconds(chain(50)), session_seconds(chain(100))
    assert two / one == 4
    assert session_seconds(chain(50), chain(100)) == two


def test_where_the_system_reports_no_memory_none_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: (_ for _ in ()).throw(ValueError), raising=False)
    assert memory_there_is() > 1 << 50
