"""Run models in onnxruntime and in onnx's reference evaluator, and compare what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_onnxruntime(model: Any, feeds: dict[str, Any], *, optimized: bool = False) -> list[Any]:
    """Run a model in onnxruntime, as it stands unless it is to be optimized."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def in_reference(model: Any, feeds: dict[str, Any]) -> list[Any]:
    """Run a model in onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, feeds))


RUNTIMES = (in_onnxruntime, in_reference)


def alike(found: Any, wanted: Any, factor: float = 1) -> bool:
    """Whether two results are the same up to a few roundings of their type."""
    import numpy as np

    if isinstance(wanted, list) or wanted is None or found is None:
        if not isinstance(found, list) or not isinstance(wanted, list):
            return found is None and wanted is None
        return len(found) == len(wanted) and all(alike(*pair, factor) for pair in zip(found, wanted, strict=True))
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OUS":
        return bool((found.astype(str) == wanted.astype(str)).all())
    if wanted.dtype.kind in "biu":
        return bool(found.dtype == wanted.dtype and (found == wanted).all())
    step = 2e-3 if wanted.dtype.itemsize <= 2 else 2e-5 if wanted.dtype.itemsize == 4 else 1e-7
    left, right = found.astype(np.complex128), wanted.astype(np.complex128)
    finite = np.abs(right[np.isfinite(right)])
    scale = float(finite.max(initial=0))
    return bool(np.allclose(left, right, rtol=factor * step, atol=factor * step * scale, equal_nan=True))


def attempt(action: Callable[[], Any]) -> Any:
    """Return the result of ``action``, or its exception of any kind: these are other people's programs."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - a runtime fails in its own ways
        return error


def complaint(model: Any) -> str:
    """Return the complaint of onnx's checker and strict inference about a model."""
    import onnx

    found = attempt(lambda: onnx.checker.check_model(model, full_check=True))
    return "" if found is None else str(found).splitlines()[0]
