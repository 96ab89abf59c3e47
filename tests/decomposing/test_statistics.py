"""Statistics at run time: only what is used is computed, as the opset spells it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bnfold.semantics import Policy
from tests.decomposing.cases import STATISTICS, Case, Done, decomposed, evaluated

HALF, DOUBLE = TensorProto.FLOAT16, TensorProto.DOUBLE
NEWEST = onnx.defs.onnx_opset_version()
CASE = Case(opset=15, outputs=STATISTICS[:2], attributes={"training_mode": 1})
OLD = Case(opset=9, outputs=STATISTICS)
INSTANCE = Case("InstanceNormalization", dims=(4, 3, 5), annotation=("n", 3, "w"))


def used_only(case: Case, *names: str) -> onnx.ModelProto:
    """The case's model with only these of its outputs returned."""
    model = case.proto()
    kept = [output for output in model.graph.output if output.name in names]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    return model


def outputs_equal(case: Case, model: onnx.ModelProto, done: Done) -> None:
    expected, actual = evaluated(model, case.feeds()), evaluated(done.model, case.feeds())
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        assert actual[name].shape == value.shape
        assert np.allclose(actual[name], value, rtol=1e-6, atol=1e-6), name


@pytest.mark.parametrize(
    ("names", "ops"),
    [
        (["y"], ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]),
        (["running_mean"], ["ReduceMean", "Mul", "Squeeze", "Mul", "Add"]),
        (["running_var"], ["ReduceMean", "Sub", "Mul", "ReduceMean", "Mul", "Squeeze", "Mul", "Add"]),
        (["saved_mean"], ["ReduceMean", "Squeeze"]),
        (["saved_var"], ["ReduceMean", "Sub", "Mul", "ReduceMean", "Squeeze"]),
    ],
)
def test_only_what_is_used(names: list[str], ops: list[str]) -> None:
    model = used_only(OLD, *names)
    done = decomposed(model)
    assert done.ops == ops
    outputs_equal(OLD, model, done)


def test_mean_and_deviations_are_computed_once_for_all_outputs() -> None:
    done = decomposed(OLD.proto())
    assert done.ops.count("ReduceMean") == 2
    outputs_equal(OLD, OLD.proto(), done)


def test_in_rank_1_a_statistic_is_read_and_returned() -> None:
    """There no axis is taken off mean and variance, so what others read and what the graph returns are one value."""
    case = replace(OLD, dims=(4,), annotation=(4,))
    done = decomposed(case.proto())
    assert done.ops.count("Identity") == 2
    assert "Squeeze" not in done.ops
    outputs_equal(case, case.proto(), done)


def test_nothing_used_nothing_left() -> None:
    model = used_only(CASE, "nothing")
    model.graph.node.append(helper.make_node("Identity", ["x"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 3, 5]))
    done = decomposed(model)
    assert done.ops == ["Identity"]
    assert done.event is not None
    assert done.event.verdict == "removed"
    assert not done.report.cuts


@pytest.mark.parametrize(("opset", "inputs"), [(15, 1), (17, 1), (18, 2), (NEWEST, 2)])
def test_reduction_axes_are_written_as_the_opset_has_them(opset: int, inputs: int) -> None:
    done = decomposed(replace(CASE, opset=opset).proto())
    assert {len(node.inputs) for node in done.model.graph.nodes if node.is_op("ReduceMean")} == {inputs}


@pytest.mark.parametrize("case", [replace(CASE, types=(HALF,) * 3), replace(INSTANCE, types=(HALF,) * 3)])
def test_sixteen_bits_are_averaged_in_float32(case: Case) -> None:
    """The sum of 4·5 values around 4000 does not fit float16, and its squares do not by far."""
    feeds = case.feeds()
    feeds["x"] = (feeds["x"].astype(np.float32) * 20 + 4000).astype(np.float16)
    done = decomposed(case.proto())
    expected, actual = evaluated(case.proto(), feeds)["y"], evaluated(done.model, feeds, precision="stored")["y"]
    assert np.allclose(actual.astype(np.float64), expected, rtol=2e-3, atol=2e-3)


def test_what_onnxruntime_returns_as_saved_variance() -> None:
    model = used_only(OLD, "saved_var")
    done = decomposed(model, policy=Policy(saved_var="inv-std"))
    plain = evaluated(model, OLD.feeds())["saved_var"]
    found = evaluated(done.model, OLD.feeds())["saved_var"]
    assert np.allclose(found, 1 / np.sqrt(plain + 1e-5), rtol=1e-6)
    assert [repair.kind for repair in done.report.repairs] == ["saved-var"]


# The referee's numpy warns of the mean of nothing, which is NaN on both sides.
EMPTY = pytest.mark.filterwarnings("ignore:(Mean of empty slice|Degrees of freedom):RuntimeWarning")


@EMPTY
@pytest.mark.parametrize("opset", [14, 17, 18])
@pytest.mark.parametrize("dims", [(4,), (4, 3), (4, 3, 5), (4, 3, 5, 2), (2, 3, 4, 0), (0, 3, 5), (4, 0, 5)])
def test_training_in_an_unknown_rank(opset: int, dims: tuple[int, ...]) -> None:
    case = replace(CASE, opset=opset, dims=dims, annotation=None)
    done = decomposed(case.proto())
    expected, actual = evaluated(case.proto(), case.feeds()), evaluated(done.model, case.feeds())
    for name, value in expected.items():
        assert actual[name].shape == value.shape
        assert np.allclose(actual[name], value, rtol=1e-6, atol=1e-6, equal_nan=True)


# -- InstanceNormalization


def test_instance_normalization_divides_statistics_and_not_the_activation() -> None:
    done = decomposed(INSTANCE.proto())
    assert done.ops == ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
    assert done.model.graph.nodes[-1].name == "norm"
    outputs_equal(INSTANCE, INSTANCE.proto(), done)


@EMPTY
@pytest.mark.parametrize("dims", [(4, 3), (4, 3, 5), (4, 3, 5, 2), (4, 3, 5, 0), (0, 3, 5), (4, 0, 5)])
@pytest.mark.parametrize("known", [False, True])
def test_instance_normalization_in_every_rank(dims: tuple[int, ...], known: bool) -> None:
    """Without an axis behind the channels each value is its own mean: y is the bias."""
    case = replace(INSTANCE, dims=dims, annotation=dims if known else None, inputs=frozenset({"bias"}))
    done = decomposed(case.proto())
    actual = evaluated(done.model, case.feeds())["y"]
    if len(dims) == 2:
        assert np.array_equal(actual, np.broadcast_to(case.values()["bias"].astype(np.float64), dims))
    else:
        outputs_equal(case, case.proto(), done)


def test_instance_normalization_of_float64_stays_float64() -> None:
    done = decomposed(replace(INSTANCE, types=(DOUBLE,) * 3).proto())
    assert "Cast" not in done.ops
    assert {array.dtype for array in done.initializers.values()} == {np.dtype(np.float64)}
