"""bnfold: convert ONNX models to another opset, make them smaller, and check every result against the original.

    optimize(source, output)    upgrade, fold and verify a model, and write it
    fold(source, output)        fold BatchNormalization into weights, and keep the opset
    convert(source, output)     convert to another opset or IR version, up or down, and nothing else
    upgrade(source, output)     change the opset and nothing else; without a number, to 15
    decompose(source, output)   replace BatchNormalization by primitive operators
    inspect(source)             show what would happen
    verify(before, after)       compare two models numerically; true if they are equivalent
    diff(before, after)         compare two models node by node
    run(source, output, [...])  run an external tool, and keep its output only if it is equivalent
    optimize_folder(source, output)     every model of a folder
    inspect_folder(source)
    verify_folders(before, after)       pairs of models of one name
    run_folder(source, output, [...])
    register_operator(...)      say what an operator of your own domain computes, and how an affine passes it
    passes, pytorch             the same as onnx_ir passes, and for torch.onnx.export
    types, errors               the types of what the functions take and return, and what they raise

What this module names is imported on first use, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bnfold import errors
from bnfold.errors import BnfoldError

if TYPE_CHECKING:
    from bnfold import operators, passes, pytorch, types
    from bnfold.api import convert, decompose, diff, fold, inspect, optimize, run, upgrade, verify
    from bnfold.batch.functions import FolderResult, inspect_folder, optimize_folder, run_folder, verify_folders
    from bnfold.batch.worker import FileResult
    from bnfold.operators import register_operator
    from bnfold.pipeline.outcome import Outcome
    from bnfold.report.events import Report
    from bnfold.settings import Options, Policy, VerifyOptions
    from bnfold.verification import Verdict

__all__ = [
    "BnfoldError",
    "FileResult",
    "FolderResult",
    "Options",
    "Outcome",
    "Policy",
    "Report",
    "Verdict",
    "VerifyOptions",
    "convert",
    "decompose",
    "diff",
    "errors",
    "fold",
    "inspect",
    "inspect_folder",
    "operators",
    "optimize",
    "optimize_folder",
    "passes",
    "pytorch",
    "register_operator",
    "run",
    "run_folder",
    "types",
    "upgrade",
    "verify",
    "verify_folders",
]


_PLACES = {
    **dict.fromkeys(
        ("FolderResult", "inspect_folder", "optimize_folder", "run_folder", "verify_folders"), "bnfold.batch.functions"
    ),
    "FileResult": "bnfold.batch.worker",
    "VerifyOptions": "bnfold.settings",
    "Options": "bnfold.settings",
    "Outcome": "bnfold.pipeline.outcome",
    "Policy": "bnfold.settings",
    "Report": "bnfold.report.events",
    "Verdict": "bnfold.verification",
    "register_operator": "bnfold.operators",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    __version__: str
else:  # a type checker shall know which names there are

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("bnfold")
        if name not in __all__:
            raise AttributeError(f"module 'bnfold' has no attribute {name!r}")
        if name in ("operators", "passes", "pytorch", "types"):
            return import_module(f"bnfold.{name}")
        return getattr(import_module(_PLACES.get(name, "bnfold.api")), name)
