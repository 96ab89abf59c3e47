"""The cases with recorded results that the onnx package ships, or makes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")


@dataclass(frozen=True)
class Case:
    """A model, what to feed it, what must come out, and within which tolerance its authors think so."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, Any]
    results: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operators(self) -> frozenset[str]:
        """The operators of the main graph."""
        return frozenset(node.op_type for node in self.model.graph.node)


def stored_cases() -> Iterator[Case]:
    """Cases whose files are in the package: traces of PyTorch from opsets 1 to 9, and small hand-made models."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for folder in (path for name in FOLDERS for path in sorted((root / name).glob("*"))):
        model = onnx.load(folder / "model.onnx")
        for data in sorted(folder.glob("test_data_set_*")):
            inputs = [
                _read(data / f"input_{i}.pb", info)
                for i, info in enumerate(model.graph.input)
                if (data / f"input_{i}.pb").exists()
            ]
            results = [_read(data / f"output_{i}.pb", info) for i, info in enumerate(model.graph.output)]
            yield Case(folder.name, model, _feeds(model, inputs), tuple(results), 1e-5, 1e-6)


def node_cases() -> Iterator[Case]:
    """Cases that the package computes with numpy when asked: one node each, at the newest opset."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is None:
            continue
        for inputs, results in case.data_sets or ():
            yield Case(
                case.name,
                case.model,
                _feeds(case.model, inputs),
                tuple(results),
                max(case.rtol, 1e-5),
                max(case.atol, 1e-6),
            )


def _feeds(model: onnx.ModelProto, inputs: Any) -> dict[str, Any]:
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [info.name for info in model.graph.input]
    if len(inputs) < len(names):
        names = [name for name in names if name not in stored]
    return {name: plain(value) for name, value in zip(names, inputs, strict=False)}


def plain(value: Any) -> Any:
    """An array where a case holds a TensorProto."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    data, kind = path.read_bytes(), info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def differences(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """What is wrong with a result; empty if nothing is. Sequences are compared element by element."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return "not a sequence of that length"
        parts = [differences(one, other, rtol, atol) for one, other in zip(actual, expected, strict=True)]
        return next((part for part in parts if part), "")
    if expected is None or actual is None:
        return "" if expected is actual else "one of them is empty"
    return _array_difference(actual, np.asarray(plain(expected)), rtol, atol)


def _array_difference(actual: Any, wanted: Any, rtol: float, atol: float) -> str:
    if actual.shape != wanted.shape:
        return f"shape {actual.shape} instead of {wanted.shape}"
    if wanted.dtype.kind in "biuOSU":
        return "" if np.array_equal(actual, wanted) else "other elements"
    kind = complex if wanted.dtype.kind == "c" else float
    one, other = actual.astype(kind), wanted.astype(kind)
    same = np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
    return "" if same else f"differs by {np.nanmax(np.abs(one - other))}"
