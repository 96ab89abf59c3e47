"""The other side of a foreign step: a process of its own, so that a tool that crashes or swells takes nobody along.

It is started as a script, ``simplifiers.py NAME IN OUT`` for a simplifier or ``simplifiers.py -- COMMAND …`` for any
other program, limits its own memory, and imports the one tool that is asked for and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MOST = 1 << 22
"""Elements up to which a constant that is computed becomes a weight."""

_OF_MEMORY = 0.9


def _data_beside(source: str, out: str) -> str:
    """The name of OUT's data file where IN has one; empty where the weights fit into the file itself."""
    return f"{Path(out).name}.data" if Path(f"{source}.data").exists() else ""


def _run_onnxscript(source: str, out: str) -> None:
    """Its optimizer; what is computed from constants alone, and what is there twice, whatever its size."""
    import onnx_ir
    from onnx_ir.passes import common
    from onnxscript import optimizer

    def is_small_fill(node: Any) -> bool | None:
        """Left alone by default, whatever its size: in front of a Slice or Concat it keeps those from folding."""
        shape = node.inputs[0].const_value if node.op_type == "ConstantOfShape" and node.inputs[0] is not None else None
        return True if shape is not None and 0 <= shape.numpy().prod() <= _MOST else None

    model = onnx_ir.load(source)
    optimizer.optimize_ir(model, output_size_limit=_MOST, should_fold=is_small_fill)
    common.DeduplicateHashedInitializersPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    beside = _data_beside(source, out)
    onnx_ir.save(model, out, **({"external_data": beside} if beside else {}))


def _run_onnxruntime(source: str, out: str) -> None:
    """Offline optimisation, at the level that stays within standard operators."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    if beside := _data_beside(source, out):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", beside)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _run_onnxslim(source: str, out: str) -> None:
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), out)


def _run_onnxsim(source: str, out: str) -> None:
    import onnx
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], out)


def _run_onnxoptimizer(source: str, out: str) -> None:
    import onnx
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), out)


TOOLS: dict[str, Callable[[str, str], None]] = {
    "onnxscript": _run_onnxscript,
    "onnxslim": _run_onnxslim,
    "onnxsim": _run_onnxsim,
    "onnxoptimizer": _run_onnxoptimizer,
    "onnxruntime": _run_onnxruntime,
}
"""Each by its defaults, but for the first."""


def _limit_memory() -> None:
    """To most of what the machine has; what is reserved and never written (by CUDA, say) does not count."""
    try:
        import resource

        most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _OF_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, AttributeError, OSError, ValueError):  # not on this system
        return


def main(name: str, *arguments: str) -> None:
    """Become the command, or run the simplifier."""
    _limit_memory()
    if name != "--":
        TOOLS[name](*arguments)
    elif os.name == "nt":  # where a process cannot become another
        sys.exit(subprocess.call(arguments))
    else:
        os.execvp(arguments[0], arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
