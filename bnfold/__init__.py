"""bnfold: upgrade, fold, decompose and verify BatchNormalization in ONNX models.

This is the public interface and nothing else. What it names is imported on first use, so that the command line starts
at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bnfold import errors
from bnfold.errors import BnfoldError

if TYPE_CHECKING:
    from bnfold.api import decompose, fold, inspect, optimize, upgrade, verify
    from bnfold.pipeline.outcome import Outcome
    from bnfold.report.events import Report
    from bnfold.settings import Options, Policy, VerifyOptions
    from bnfold.verification import Verdict

__all__ = [
    "BnfoldError",
    "Options",
    "Outcome",
    "Policy",
    "Report",
    "Verdict",
    "VerifyOptions",
    "decompose",
    "errors",
    "fold",
    "inspect",
    "optimize",
    "upgrade",
    "verify",
]


_PLACES = {
    "VerifyOptions": "bnfold.settings",
    "Options": "bnfold.settings",
    "Outcome": "bnfold.pipeline.job",
    "Policy": "bnfold.settings",
    "Report": "bnfold.report.events",
    "Verdict": "bnfold.verification",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("bnfold")
    if name not in __all__:
        raise AttributeError(f"module 'bnfold' has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "bnfold.api")), name)
