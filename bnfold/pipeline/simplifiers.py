"""The other side of a foreign step: a process of its own, so that a tool that crashes or swells ends alone.

It is started as a script, ``simplifiers.py NAME`` for a simplifier or ``simplifiers.py -- COMMAND …`` for any other
program, and limits its own memory. A simplifier is imported, and nothing else; then it waits for a line with the names
of the two files, so that it can be started before there is something to simplify.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_MOST = 1 << 22
"""Elements up to which a constant that is computed becomes a weight."""

_OF_MEMORY = 0.9


def _data_beside(source: str, out: str) -> str:
    """Return the name of OUT's data file where IN has one; empty where the weights fit into the file itself."""
    return f"{Path(out).name}.data" if Path(f"{source}.data").exists() else ""


def _run_onnxscript(source: str, out: str) -> None:
    """Run its optimizer; what is computed from constants alone, and what is there twice, whatever its size."""
    import onnx_ir
    from onnx_ir.passes import common
    from onnxscript import optimizer

    def is_small(node: Any) -> bool | None:
        """Whether to compute it: by default fills, and large Reshapes, are left alone, and keep others from folding."""
        first = node.inputs[0].const_value if node.inputs and node.inputs[0] is not None else None
        if first is None or node.op_type not in ("ConstantOfShape", "Reshape"):
            return None
        size = first.numpy().prod() if node.op_type == "ConstantOfShape" else first.size
        return True if 0 <= size <= _MOST else None

    model = onnx_ir.load(source)
    optimizer.optimize_ir(model, output_size_limit=_MOST, should_fold=is_small)
    common.DeduplicateHashedInitializersPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    beside = _data_beside(source, out)
    onnx_ir.save(model, out, **({"external_data": beside} if beside else {}))


def _run_onnxruntime(source: str, out: str) -> None:
    """Run its offline optimisation, at the level that stays within standard operators.

    Its result imports every domain that it knows; older runtimes refuse to load that.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    if beside := _data_beside(source, out):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", beside)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    before, after = (onnx.load(file, load_external_data=False) for file in (source, out))
    imported = {entry.domain for entry in before.opset_import}
    kept = [entry for entry in after.opset_import if entry.domain in imported]
    del after.opset_import[:]
    after.opset_import.extend(kept)
    onnx.save(after, out)


def _run_onnxslim(source: str, out: str) -> None:
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), out)


TOOLS: dict[str, Callable[[str, str], None]] = {
    "onnxscript": _run_onnxscript,
    "onnxslim": _run_onnxslim,
    "onnxruntime": _run_onnxruntime,
}
"""Each by its defaults, but for the first."""


def _limit_memory() -> None:
    """Limit memory to most of what the machine has.

    What is reserved and never written (by CUDA, say) does not count.
    """
    try:
        import resource

        most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _OF_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, AttributeError, OSError, ValueError):  # not on this system
        return


def _when_asked(name: str) -> None:
    """Import first, then wait for the start: for small models, importing takes most of the time.

    The parent process may end without starting it.
    """
    import_module("onnxscript.optimizer" if name == "onnxscript" else name)
    if line := sys.stdin.readline():
        source, out = json.loads(line)
        os.chdir(Path(out).parent)
        TOOLS[name](source, out)


def main(name: str, *arguments: str) -> None:
    """Become the command, or run the simplifier."""
    _limit_memory()
    if name != "--":
        _when_asked(name)
    elif os.name == "nt":  # where a process cannot become another
        sys.exit(subprocess.call(arguments))
    else:
        os.execvp(arguments[0], arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
