"""Script: `peers.py TOOL IN OUT` does bnfold's job with another tool. Each function imports only its own tool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A larger model does not fit into one protobuf message.
_ONE_FILE = 1_900_000_000


def _is_big(source: str) -> bool:
    folder = Path(source).parent
    return sum(path.stat().st_size for path in folder.iterdir()) > _ONE_FILE


def _save(model: Any, source: str, out: str) -> None:
    import onnx

    if _is_big(source):
        onnx.save(model, out, save_as_external_data=True, location=Path(out).name + ".data")
    else:
        onnx.save(model, out)


def onnx_load_save(source: str, out: str) -> None:
    """Load and save: the lower bound of every tool that uses onnx's own loader."""
    import onnx

    _save(onnx.load(source), source, out)


def onnxruntime(source: str, out: str) -> None:
    """Optimise offline, at the level that fuses BatchNormalization and stays within standard operators."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    if _is_big(source):
        key = "session.optimized_model_external_initializers_file_name"
        options.add_session_config_entry(key, Path(out).name + ".data")
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def onnxscript(source: str, out: str) -> None:
    """Apply the rewriter's BatchNormalization rules alone: with its default rules it takes quadratic time."""
    import onnx_ir
    from onnxscript.rewriter import RewritePass
    from onnxscript.rewriter.rules.common import _fuse_batchnorm

    model = onnx_ir.load(source)
    RewritePass(_fuse_batchnorm.rules)(model)
    onnx_ir.save(model, out, **({"external_data": Path(out).name + ".data"} if _is_big(source) else {}))


def onnxsim(source: str, out: str) -> None:
    """Simplify with default settings, without the tool's own check of the result."""
    import onnx
    import onnxsim

    model, _ = onnxsim.simplify(onnx.load(source))
    _save(model, source, out)


def onnxslim(source: str, out: str) -> None:
    """Simplify with default settings."""
    import onnx
    import onnxslim

    _save(onnxslim.slim(onnx.load(source)), source, out)


def onnxoptimizer(source: str, out: str) -> None:
    """Run the passes that remove BatchNormalization and the dead nodes around it."""
    import onnx
    import onnxoptimizer

    passes = ["fuse_bn_into_conv", "eliminate_unused_initializer"]
    _save(onnxoptimizer.optimize(onnx.load(source), passes), source, out)


def version_converter(source: str, out: str) -> None:
    """Upgrade to opset 15."""
    import onnx
    from onnx import version_converter

    _save(version_converter.convert_version(onnx.load(source), 15), source, out)


PEERS: dict[str, Callable[[str, str], None]] = {
    "onnx": onnx_load_save,
    "onnxruntime": onnxruntime,
    "onnxscript": onnxscript,
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "version_converter": version_converter,
}

if __name__ == "__main__":
    # This folder must not be searched for modules: the functions above import the packages they are named after.
    sys.path.pop(0)
    PEERS[sys.argv[1]](sys.argv[2], sys.argv[3])
