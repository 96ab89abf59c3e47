"""Upgrade a model and hold what it computes against what it computed: the referee before and after, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from bnfold import ir, reference
from bnfold.converting import convert as upgrade
from bnfold.converting.model import Converted
from bnfold.semantics import Policy

Array = np.ndarray[Any, Any]
SIZES = (5, 7, 3, 2, 11)
"""What symbolic dims are drawn as, in the order of their names' appearance: pairwise different."""


@dataclass
class Outcome:
    """An upgraded model, written and read again, and what the upgrade said."""

    model: ir.Model
    report: Converted
    results: Mapping[str, Array]
    feeds: Mapping[str, Array]

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.model.graph.nodes]

    @property
    def repairs(self) -> list[str]:
        return [repair.kind for repair in self.report.repairs]


def draw(model: ir.Model, seed: int) -> dict[str, Array]:
    """Values for every input that has no initializer; floats around 0 of both signs, one-dimensional ones positive."""
    generator, sizes, feeds = np.random.default_rng(seed), dict[str, int](), dict[str, Array]()
    for value in model.graph.inputs:
        if value.is_initializer:
            continue
        assert value.shape is not None
        assert value.dtype is not None
        dims = [
            dim if isinstance(dim, int) else sizes.setdefault(dim or value.name, SIZES[len(sizes)])
            for dim in value.shape
        ]
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.dtype))
        if dtype.kind == "b":
            feeds[value.name] = generator.integers(0, 2, dims).astype(bool)
        elif dtype.kind in "iu":
            feeds[value.name] = generator.integers(0, 3, dims).astype(dtype)
        else:
            floats = generator.uniform(0.5, 2, dims) if len(dims) == 1 else generator.normal(size=dims)
            feeds[value.name] = np.asarray(floats).astype(dtype)
    return feeds


def assert_equal(before: Mapping[str, Array], after: Mapping[str, Array]) -> None:
    """Names, shapes, types and NaN patterns are the same, and the numbers up to float64's own rounding."""
    assert list(after) == list(before)
    for name, value in before.items():
        expected, actual = np.asarray(value), np.asarray(after[name])
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), name
        if expected.dtype.kind == "f":
            scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-6))
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10 * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=name)


@pytest.fixture
def text() -> Callable[..., str]:
    """``text(opset, "float[2, 3] x", "y = Relu (x)", outputs="float[] y", ir=…)``: a model in onnx's text form."""

    def write(opset: int, inputs: str, body: str, *, outputs: str = "float[] y", ir: int = 8) -> str:
        return f'<ir_version: {ir}, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'

    return write


@pytest.fixture
def upgraded(tmp_path: Path) -> Callable[..., Outcome]:
    """``upgraded(model, target, policy=…, seed=…)``: upgrade a text or ModelProto; it has to compute the same.

    The model is read twice, so that nothing is shared between before and after; the interface has to be the same, a
    second upgrade must change nothing, and onnx's checker must have no complaint that it did not have before.
    """

    def convert(
        source: str | onnx.ModelProto,
        target: int | None = None,
        *,
        policy: Policy | None = None,
        referee: reference.Policy | None = None,
        seed: int = 0,
        feeds: Mapping[str, Array] | None = None,
        compare: bool = True,
    ) -> Outcome:
        proto = onnx.parser.parse_model(source) if isinstance(source, str) else source
        before, model = ir.load(proto), ir.load(proto)
        interface = _interface(before)
        report = upgrade(model, target, policy=policy)
        path = tmp_path / "upgraded.onnx"
        ir.save(model, path)
        model = ir.load(path.read_bytes())
        assert _interface(model) == interface
        if not _complaint(proto):
            assert not _complaint(onnx.load(path))
        _assert_stable(path, target, policy)
        results: Mapping[str, Array] = {}
        drawn = {**draw(before, seed), **(feeds or {})}
        if compare:
            results = reference.evaluate(model, drawn)
            assert_equal(reference.evaluate(before, drawn, policy=referee), results)
        return Outcome(model, report, results, drawn)

    return convert


def _interface(model: ir.Model) -> list[tuple[str, bool]]:
    """Names of what callers feed and get, in order."""
    inputs = [(value.name, True) for value in model.graph.inputs if not value.is_initializer]
    return inputs + [(value.name, False) for value in model.graph.outputs]


def _complaint(proto: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


def _assert_stable(path: Path, target: int | None, policy: Policy | None) -> None:
    """Upgrading twice changes nothing."""
    once, twice = ir.load(path.read_bytes()), ir.load(path.read_bytes())
    again = upgrade(twice, target, policy=policy)
    twice.sync()
    assert not again.changes
    assert not again.repairs
    assert twice.proto.SerializeToString(deterministic=True) == once.proto.SerializeToString(deterministic=True)


RELATIVE = {np.dtype(np.float16): 4e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}
"""How far two ways of computing the same may differ, as a part of the largest value: a few roundings of the type."""


@pytest.fixture
def lowered() -> Callable[..., Outcome]:
    """``lowered(model, target, feeds=…)``: lower the opset; onnxruntime has to compute what it did.

    The result passes onnx's checker and strict inference at the target, and its IR version is the target's.
    """

    def convert(
        source: str | onnx.ModelProto, target: int, *, seed: int = 0, feeds: Mapping[str, Array] | None = None
    ) -> Outcome:
        proto = onnx.parser.parse_model(source) if isinstance(source, str) else source
        drawn = {**draw(ir.load(proto), seed), **(feeds or {})}
        expected = run(proto, drawn)
        state_ranks(proto, expected)
        model = ir.load(proto)
        report = upgrade(model, target)
        model.remove_dead_nodes()
        encoded = ir.encode(model)
        model, written = ir.load(encoded), onnx.ModelProto.FromString(encoded)
        assert model.opset("") == target
        onnx.checker.check_model(written, full_check=True)
        results = run(written, drawn)
        for name, value in expected.items():
            actual = results[name]
            assert (actual.shape, actual.dtype) == (value.shape, value.dtype), name
            if value.dtype.kind != "f":
                np.testing.assert_array_equal(actual, value, err_msg=name)
                continue
            scale = float(np.abs(value[np.isfinite(value)]).max(initial=1e-6))
            tolerance = RELATIVE[value.dtype]
            np.testing.assert_allclose(actual, value, rtol=tolerance, atol=tolerance * scale, err_msg=name)
        return Outcome(model, report, results, drawn)

    return convert


def state_ranks(proto: onnx.ModelProto, results: Mapping[str, Array]) -> None:
    """State the ranks of outputs, which the text form has no way to leave the sizes open with."""
    for output in proto.graph.output:
        if not output.type.tensor_type.HasField("shape"):
            output.type.tensor_type.shape.SetInParent()
            for _ in range(results[output.name].ndim):
                output.type.tensor_type.shape.dim.add()


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Compute a model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, dict(feeds))), strict=True))
