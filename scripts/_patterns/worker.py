"""Script: `worker.py TOOL FOLDER` rewrites every FOLDER/*.onnx with one tool into FOLDER/TOOL.

A note beside each model says how far it got, which shows a tool that kills its process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def bnfold(source: str, out: str) -> None:
    """Fold alone, constant arithmetic included, with the options beside the model."""
    from bnfold import ir
    from bnfold.pipeline import passes
    from bnfold.settings import Options

    model, asked = ir.load(source), json.loads(Path(source).with_suffix(".json").read_text(encoding="utf-8"))
    passes.rewrite(model, Options(target_opset="keep", all_affines=True, max_growth=1 << 30, **asked))
    ir.save(model, out)


def optimize(source: str, out: str) -> None:
    """Run `bnfold optimize` on a network, without verification."""
    from bnfold import ir
    from bnfold.pipeline import passes
    from bnfold.settings import Options

    model = ir.load(source)
    passes.rewrite(model, Options())
    ir.save(model, out)


def onnxruntime(source: str, out: str) -> None:
    """Optimise offline with all optimisations for any processor."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def basic(source: str, out: str) -> None:
    """Optimise as `onnxruntime`, without operators of its own; its folds are all there."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def onnxscript(source: str, out: str) -> None:
    """Run the optimizer, then the rewriter with its default rules."""
    import onnx_ir
    from onnxscript import optimizer, rewriter

    model = onnx_ir.load(source)
    optimizer.optimize(model)
    rewritten: Any = rewriter.rewrite(model)
    onnx_ir.save(rewritten, out)


def onnxsim(source: str, out: str) -> None:
    """Simplify with default settings, without the tool's own check of the result."""
    import onnx
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], out)


def onnxslim(source: str, out: str) -> None:
    """Simplify with default settings."""
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), out)


def onnxoptimizer(source: str, out: str) -> None:
    """Run the default passes and the one that removes BatchNormalization."""
    import onnx
    import onnxoptimizer

    passes = [*onnxoptimizer.get_fuse_and_elimination_passes(), "fuse_bn_into_conv"]
    onnx.save(onnxoptimizer.optimize(onnx.load(source), list(dict.fromkeys(passes))), out)


TOOLS: dict[str, Callable[[str, str], None]] = {
    "bnfold": bnfold,
    "bnfold optimize": optimize,
    "onnxruntime": onnxruntime,
    "onnxruntime basic": basic,
    "onnxscript": onnxscript,
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
}


def main(tool: str, folder: Path) -> None:
    """Rewrite the models that no earlier, dead worker has touched."""
    for source in sorted(folder.glob("*.onnx")):
        out = folder / tool / source.name
        note = out.with_suffix(".note")
        if note.exists():
            continue
        note.write_text("died", encoding="utf-8")
        try:
            TOOLS[tool](str(source), str(out))
        except Exception as error:  # noqa: BLE001 - whatever the tool raises is its result
            note.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        else:
            note.write_text("", encoding="utf-8")


if __name__ == "__main__":
    # This folder must not be searched for modules: the functions above import the packages they are named after.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)
    main(sys.argv[1], Path(sys.argv[2]))
