"""Modules of every kind beside their exports: structured calls, narrow and wide floats, jumps, what cannot be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bnfold

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - only now is it known that torch is there

from bnfold import pytorch  # noqa: E402
from tests.interop.pytorch import networks  # noqa: E402
from tests.interop.pytorch.networks import ResNet, count  # noqa: E402

X = networks.example(ResNet)


class Head(nn.Module):
    """Conv, BatchNorm, Relu, Conv, and then whatever ``last`` makes of it."""

    def __init__(self, last: Callable[[Any], Any] = lambda y: y) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Conv2d(5, 4, 1)
        self.last = last

    def forward(self, x: Any) -> Any:
        return self.last(self.second(torch.relu(self.norm(self.first(x)))))


def optimized(module: Any, x: Any = X, **options: Any) -> pytorch.TorchOutcome:
    program = networks.plainly_exported(module, x, **options)
    outcome = pytorch.optimize(program, module=module)
    assert count(program.model) == 0
    return outcome


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_module_of_any_float_type_is_run_in_float64(dtype: str) -> None:
    module = networks.drawn(Head()).to(getattr(torch, dtype))
    outcome = optimized(module, X.to(getattr(torch, dtype)))
    assert outcome.status == "verified"
    assert outcome.module is not None
    assert outcome.module.precision == "float64"
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    assert all(row.relative <= 4 * unit + 1e-12 for row in outcome.module.rows)
    assert next(module.parameters()).dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (lambda y: y.float(), "its copy in float64 returns torch.float32"),
        (lambda y: nn.functional.conv2d(y, torch.ones(2, 4, 1, 1)), "it does not run in float64"),
    ],
)
def test_where_float64_does_not_work_its_own_precision_does(last: Callable[[Any], Any], why: str) -> None:
    outcome = optimized(networks.drawn(Head(last)))
    assert outcome.status == "verified"
    assert outcome.module is not None
    assert outcome.module.precision == "stored"
    assert why in outcome.module.notes[0]


def test_outputs_that_jump_must_be_equal() -> None:
    outcome = optimized(networks.drawn(Head(lambda y: (y.argmax(1), y > 0))))
    assert outcome.status == "verified"
    assert outcome.module is not None
    assert {row.relative for row in outcome.module.rows} == {0.0}


def test_a_module_that_draws_random_numbers_is_unverified() -> None:
    outcome = optimized(networks.drawn(Head(lambda y: y + torch.randn_like(y))))
    assert outcome.status == "unverified"
    assert outcome.module is not None
    assert "draws random numbers" in outcome.module.reason


def test_a_module_that_does_not_run_is_unverified_and_says_why() -> None:
    def refuse(_: Any) -> Any:
        raise RuntimeError("no such thing\nand more")

    module = networks.drawn(Head())
    program = networks.plainly_exported(module, X)
    module.last = refuse
    outcome = pytorch.optimize(program, module=module)
    assert outcome.status == "unverified"
    assert outcome.module is not None
    assert outcome.module.reason == "the module does not run: RuntimeError: no such thing"


def test_another_number_of_outputs_is_unverified() -> None:
    module = networks.drawn(Head())
    program = networks.plainly_exported(module, X)
    module.last = lambda y: (y, y)
    outcome = pytorch.optimize(program, module=module)
    assert outcome.module is not None
    assert outcome.module.reason == "the module returns 2 tensors, the model has 1 outputs"


class Structured(nn.Module):
    """Whole numbers, keyword arguments in another order than written, nested ones, None, and nested results."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.conv, self.norm = nn.Embedding(11, 3), nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5)

    def forward(self, ids: Any, *, scale: Any, bias: Any = None, parts: Any) -> Any:
        y = self.norm(self.conv(self.words(ids).transpose(1, 2) * scale))
        assert bias is None
        return {"y": y * parts[0] + parts[1]["b"], "z": [y.sum(-1)]}


def structured() -> tuple[Any, Any, dict[str, Any]]:
    module = networks.drawn(Structured())
    ids = torch.arange(18).reshape(2, 9) % 11
    return module, ids, {"scale": torch.tensor(2.5), "parts": [torch.ones(5, 1) * 2, {"b": torch.tensor([0.5])}]}


def test_structured_calls_and_results() -> None:
    module, ids, others = structured()
    program = networks.plainly_exported(module, ids, kwargs=others)
    outcome = pytorch.optimize(program, module=module)
    assert outcome.status == "verified"
    assert outcome.module is not None
    assert {row.output for row in outcome.module.rows} == {value.name for value in program.model.graph.outputs}
    assert list(outcome.module.rows[0].shapes.values()) == [(2, 9), (), (5, 1), (1,)]


def test_keyword_arguments_may_come_in_any_order() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, left: Any, right: Any) -> Any:
            return self.norm(left) - 2 * right

    module, left, right = networks.drawn(Two()), torch.randn(3, 4), torch.randn(3, 4)
    program = networks.plainly_exported(module, left, right)
    outcome = pytorch.optimize(program, module=module, example_inputs={"right": right, "left": left})
    assert outcome.module is not None
    assert outcome.module.verified


def test_an_export_that_holds_for_the_examples_sizes_only_is_compared_on_those() -> None:
    """The older exporter writes sizes that Python computed as constants, whatever axes were declared dynamic."""
    module = networks.drawn(Head(lambda y: y * float(y.shape[2])))
    data = networks.scripted(module, X, opset_version=13, input_names=["x"], dynamic_axes={"x": {2: "height"}})
    outcome = pytorch.optimize(data, module=module, example_inputs=X)
    assert outcome.status == "verified"
    assert outcome.module is not None
    assert {row.shapes["x"] for row in outcome.module.rows} == {tuple(X.shape)}


def test_the_seed_decides_what_is_drawn() -> None:
    module = networks.drawn(Head())
    program = networks.plainly_exported(module, X)
    runs = [
        pytorch.optimize(
            program.model, module=module, example_inputs=X, verify=bnfold.VerifyOptions(samples=2, seed=seed)
        )
        for seed in (5, 5, 6)
    ]
    scales = [[row.scale for row in run.module.rows] for run in runs if run.module is not None]
    assert scales[0] == scales[1]
    assert scales[0][0] == scales[2][0]
    assert not np.isclose(scales[0][1], scales[2][1], rtol=1e-9, atol=0)
