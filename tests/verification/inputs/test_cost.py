from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.reference.work import NODE_SECONDS, PRODUCTS_A_SECOND
from bnfold.verification import verify
from bnfold.verification.inputs.cost import estimate, estimate_pair, memory_there_is, session_seconds
from bnfold.verification.inputs.sized import sized
from tests.verification.graphs import model

CONV = "(float[N,8,H,W] x) => (float[N,16,P,Q] y) { y = Conv <group = 2> (x, W) }"
WEIGHT = {"W": np.ones((16, 4, 3, 3))}


def test_products_of_a_convolution_are_counted() -> None:
    cost = estimate(sized(ir.load(model(CONV, WEIGHT)), {"x": (2, 8, 34, 50)}))
    products = 2 * 16 * 32 * 48 * 4 * 9
    assert products / PRODUCTS_A_SECOND < cost.seconds < 3 * products / PRODUCTS_A_SECOND + NODE_SECONDS
    assert cost.memory >= 8 * 2 * 16 * 32 * 48


def test_products_of_other_operators_are_counted() -> None:
    matmul = ir.load(model("(float[N,K] x) => (float[N,M] y) { y = MatMul (x, W) }", {"W": np.ones((300, 400))}))
    assert estimate(sized(matmul, {"x": (500, 300)})).seconds > 500 * 300 * 400 / PRODUCTS_A_SECOND
    turned = "(float[N,8,H,W] x) => (float[N,4,P,Q] y) { y = ConvTranspose <strides = [2,2]> (x, W) }"
    transposed = ir.load(model(turned, {"W": np.ones((8, 4, 2, 2))}))
    assert estimate(sized(transposed, {"x": (1, 8, 20, 20)})).seconds > 8 * 20 * 20 * 4 * 4 / PRODUCTS_A_SECOND


def test_products_of_recurrent_operators_are_counted_for_each_step() -> None:
    body = "(float[N,2,30] x) => (float[M,1,2,40] y) { y = LSTM <hidden_size = 40> (x, w, r) }"
    lstm = ir.load(model(body, {"w": np.ones((1, 160, 30)), "r": np.ones((1, 160, 40))}))
    assert estimate(sized(lstm, {"x": (500, 2, 30)})).seconds > 500 * 2 * 160 * 70 / PRODUCTS_A_SECOND
    assert estimate(sized(lstm, {"x": (500, 2, 30)})).seconds < 2 * 500 * 2 * 160 * 70 / PRODUCTS_A_SECOND + 1e-3


def test_what_inference_does_not_know_costs_what_took_its_place_does() -> None:
    head = "(float[N,8,H,W] x) => (float[N,16,P,Q] y)"
    old = model(f"{head} {{ c = Crop <border = [1, 1, 1, 1]> (x)  y = Conv <group = 2> (c, W) }}", WEIGHT, opset=8)
    new = model(f"{head} {{ c = Relu (x)  y = Conv <group = 2> (c, W) }}", WEIGHT)
    shapes = {"x": (2, 8, 34, 50)}
    before, after = sized(ir.load(old), shapes), ir.load(new)
    products = 2 * 16 * 32 * 48 * 4 * 9
    assert estimate(before).seconds < products / PRODUCTS_A_SECOND < estimate_pair(before, after, shapes).seconds


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
