"""What is to be optimised: a file, a model, a program, or what `torch.export.export` made, which is exported here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.interop.pytorch.inputs import Inputs
from bnfold.pipeline import formats


@dataclass(frozen=True, slots=True)
class Opened:
    """What to process, and where there are any: the ``ONNXProgram`` around it and the ``onnx_ir.Model`` in that.

    ``module`` is what a ``torch.export.ExportedProgram`` computes, ``notes`` say what was done to the export.
    """

    source: formats.ModelSource
    program: Any = None
    model: Any = None
    module: Any = None
    notes: tuple[str, ...] = ()


def opened(given: Any) -> Opened:
    """Sort out what was given. Raises BadInput for anything else."""
    if isinstance(given, str | os.PathLike):
        return Opened(Path(given))
    if isinstance(given, bytes | onnx.ModelProto):
        return Opened(given)
    import onnx_ir

    from bnfold.interop.onnx_ir import from_onnx_ir

    program, module = _exported(given)
    notes = _optimised(program)
    model = program if isinstance(program, onnx_ir.Model) else getattr(program, "model", None)
    if not isinstance(model, onnx_ir.Model):
        raise BadInput(
            "an ONNXProgram, an ExportedProgram, an onnx_ir.Model, a path, bytes or an onnx.ModelProto is wanted, "
            f"not {type(given).__name__}"
        )
    return Opened(from_onnx_ir(model), None if model is program else program, model, module, notes)


def _exported(given: Any) -> tuple[Any, Any]:
    """Return an ``ExportedProgram`` as an ``ONNXProgram``, and what it computes; anything else as it is."""
    torch = sys.modules.get("torch")  # a caller that has a module has imported torch
    if torch is None or not isinstance(given, torch.export.ExportedProgram):
        return given, None
    return torch.onnx.export(given, dynamo=True, verbose=False), given.module()


def _optimised(program: Any) -> tuple[str, ...]:
    """Let the exporter compute what it left to the graph: a bias behind CastLike is no constant."""
    graph = getattr(getattr(program, "model", None), "graph", ())
    if not hasattr(program, "optimize") or not any(node.op_type == "CastLike" for node in graph):
        return ()
    program.optimize()
    return ("the export was not optimised: program.optimize() was called first",)


def example(program: Any, model: ir.Model) -> Inputs | None:
    """Return the inputs that an ``ONNXProgram`` remembers; None if it is none, or remembers nothing."""
    exported = getattr(program, "exported_program", None)
    remembered = getattr(exported, "example_inputs", None)
    if remembered is None:
        return None
    args, kwargs = remembered
    return Inputs(args, kwargs, model.required_inputs())
