"""What comparing a model with the PyTorch module that it was exported from found, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bnfold.settings import to_json

ModuleStatus = Literal["verified", "unverified", "failed"]


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One output on one sample.

    Attributes:
        sample: Which one; 0 are the example inputs where there are some.
        shapes: Of the inputs, by name.
        output: The name in the graph.
        relative: The largest difference between the folded model in float64 and the module, in units of ``scale``.
        allowed: The largest ``relative`` that is accepted: what rounding every weight once can cause.
        scale: The largest finite magnitude in the module's output.
        exported: As ``relative``, for the model as it was exported, where both differ from the module by more than
            rounding one result; else 0. Infinite where shapes, whole numbers or NaN differ.
        fault: What is wrong; empty if nothing is.
    """

    sample: int
    shapes: Mapping[str, tuple[int, ...]]
    output: str
    relative: float
    allowed: float
    scale: float
    exported: float = 0.0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ModuleVerdict:
    """``verified``: on every sample all outputs are what ``module.eval()`` gives. ``unverified``: nothing was compared.

    Attributes:
        status: ``verified``, ``unverified`` or ``failed``.
        reason: One sentence.
        precision: In which the module ran: ``float64``, on a copy, or ``stored``, its own, where it cannot run in
            float64; empty if it did not run.
        rows: The evidence.
        notes: Further remarks: samples left out, differences that existed before folding.
    """

    status: ModuleStatus
    reason: str
    precision: Literal["float64", "stored", ""] = ""
    rows: tuple[ModuleRow, ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the status is ``verified``."""
        return self.verified

    @property
    def verified(self) -> bool:
        """Whether the status is ``verified``."""
        return self.status == "verified"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; numbers that JSON has no word for (nan, inf) become strings."""
        document: dict[str, Any] = to_json(self)
        return document
