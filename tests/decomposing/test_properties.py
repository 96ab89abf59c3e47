"""Whatever the form of the normalisation: nothing of it is left, and the model computes what it computed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from bnfold.decomposing import Form, left
from tests.decomposing.cases import (
    OPERATORS,
    PARAMETERS,
    SIZES,
    STATISTICS,
    Case,
    Done,
    decomposed,
    evaluated,
    size_of_terms,
    unit,
)

NEWEST = onnx.defs.onnx_opset_version()
RUNTIME_NEWEST = 26
"""What the installed onnxruntime accepts."""
FLOAT, DOUBLE, HALF, BRAIN = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
ROUNDINGS = 8
"""At most so many operations with numbers of the size of the terms: see `size_of_terms`."""


@st.composite
def types(draw: st.DrawFn, opset: int, target: int) -> tuple[int, int, int]:
    """Of x, of scale and bias, of mean and variance, as far as the version lets them differ."""
    known = [FLOAT, HALF, DOUBLE, *([BRAIN] if opset >= 14 else [])]
    one, two, three = (draw(st.sampled_from(known)) for _ in range(3))
    if opset >= 15:
        return one, two, three
    return (one, one, three) if opset == 14 and target >= 14 else (one, one, one)


@st.composite
def known_dims(draw: st.DrawFn, dims: tuple[int, ...], opset: int) -> tuple[int | str | None, ...] | None:
    if opset >= 5 and draw(st.integers(0, 4)) == 0:
        return None
    unknown = draw(st.sets(st.integers(0, len(dims) - 1)))
    return tuple(f"d{axis}" if axis in unknown else size for axis, size in enumerate(dims))


@st.composite
def batchnorms(draw: st.DrawFn) -> tuple[Case, int]:
    opset = draw(st.sampled_from([1, 6, 7, 9, 12, 14, 15, 18, 22, NEWEST]))
    target = draw(st.integers(max(opset, 7), NEWEST))
    rank = draw(st.integers(1, 5))
    dims = tuple(draw(st.permutations(SIZES))[:rank])
    training = draw(st.booleans())
    attributes: dict[str, object] = draw(
        st.fixed_dictionaries({}, optional={"epsilon": st.sampled_from([1e-5, 1e-2, 0.0])})
    )
    if training:
        attributes["momentum"] = draw(st.sampled_from([0.9, 0.3, 0.0]))
    annotation = draw(known_dims(dims, opset))
    if rank == 1 or (training and target < 14):
        annotation = dims  # the number of channels of rank 1 is 1; statistics in an unknown rank need opset 14
    if opset >= 14:
        attributes |= {"training_mode": int(training)}
        outputs = tuple(draw(st.sampled_from([name, ""])) for name in STATISTICS[:2]) if training else ()
    else:
        outputs = tuple(draw(st.sampled_from([name, ""])) for name in STATISTICS) if training else ()
        if training and not any(outputs):
            outputs = STATISTICS
        if opset < 7:
            attributes |= {"is_test": int(not training)}
    return Case(
        opset=opset,
        dims=dims,
        annotation=annotation,
        types=draw(types(opset, target)),
        inputs=draw(st.frozensets(st.sampled_from(PARAMETERS)) if draw(st.booleans()) else st.just(frozenset[str]())),
        outputs=outputs,
        attributes=attributes,
        seed=draw(st.integers(0, 2**16)),
    ), target


@st.composite
def instancenorms(draw: st.DrawFn) -> tuple[Case, int]:
    opset = draw(st.sampled_from([1, 6, 9, 15, 22, NEWEST]))
    target = draw(st.integers(max(opset, 7), NEWEST))
    dims = tuple(draw(st.permutations(SIZES))[: draw(st.integers(3, 5))])
    dtype = draw(st.sampled_from([FLOAT, HALF, DOUBLE, *([BRAIN] if opset >= 22 else [])]))
    return Case(
        op_type="InstanceNormalization",
        opset=opset,
        dims=dims,
        annotation=draw(known_dims(dims, opset)) if target >= 14 else dims,
        types=(dtype, dtype, dtype),
        inputs=draw(st.frozensets(st.sampled_from(PARAMETERS[:2]))),
        attributes=draw(st.fixed_dictionaries({}, optional={"epsilon": st.sampled_from([1e-5, 1e-2])})),
        seed=draw(st.integers(0, 2**16)),
    ), target


def check(case: Case, target: int, form: Form = "mul_add") -> Done:
    """Decompose, compare with the referee in exact arithmetic and in storage precision, and with a runtime."""
    before = case.proto()
    done = decomposed(before, form, target=target)
    assert left(done.model, OPERATORS) == []
    assert done.event is None or done.event.verdict == "decomposed"
    expected = evaluated(before, case.feeds())
    terms = size_of_terms(case, expected)
    within = ROUNDINGS * unit(*case.types, FLOAT)
    for precision in ("float64", "stored"):
        compare(evaluated(done.model, case.feeds(), precision=precision), expected, terms, within)
    if target <= RUNTIME_NEWEST and BRAIN not in case.types:
        compare(run(done.model.proto, case), expected, terms, within)
    return done


def compare(
    actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], terms: dict[str, np.ndarray], within: float
) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].shape == value.shape, name
        error = np.abs(actual[name].astype(np.float64) - value)
        assert (error <= within * terms[name]).all(), (name, error.max(), within)


def run(model: onnx.ModelProto, case: Case) -> dict[str, np.ndarray]:
    """In onnxruntime as it stands: nothing in a decomposed model makes it fold or rewrite anything wrongly."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, case.feeds()), strict=True))


SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(batchnorms(), st.sampled_from(["mul_add", "sub_mul_add", "depthwise_conv"]))
def test_batch_normalization(drawn: tuple[Case, int], form: Form) -> None:
    check(*drawn, form)


@SETTINGS
@given(instancenorms())
def test_instance_normalization(drawn: tuple[Case, int]) -> None:
    check(*drawn)


@pytest.mark.parametrize("opset", [6, 7])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inputs", [frozenset[str](), frozenset(PARAMETERS)])
@pytest.mark.parametrize("shape", [(3, 5, 2), (30,)])
def test_parameters_of_single_activations(
    opset: int, training: bool, inputs: frozenset[str], shape: tuple[int, ...]
) -> None:
    attributes = {"spatial": 0, **({"is_test": int(not training)} if opset == 6 else {})}
    case = Case(
        opset=opset,
        dims=(4, 3, 5, 2),
        annotation=("n", 3, 5, 2),
        inputs=inputs,
        outputs=STATISTICS if training else (),
        shape=shape,
        attributes=attributes,
    )
    check(case, 15)
    check(case, 7)
