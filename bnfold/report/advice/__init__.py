"""What each reason means, a model that shows it, and what its owner can do: for reports and for docs/reasons.md.

A test runs every example with the command that stands beside it, so that page and code cannot drift apart.
They are in ONNX's own textual form: ``onnx.parser.parse_model`` reads them.
"""

from __future__ import annotations

from bnfold.report.advice.example import Advice
from bnfold.report.advice.itself import ITSELF
from bnfold.report.advice.neighbours import NEIGHBOURS
from bnfold.report.advice.numbers import NUMBERS
from bnfold.report.reasons import Reason

__all__ = ["ADVICE", "Advice"]

ADVICE: dict[Reason, Advice] = {**ITSELF, **NEIGHBOURS, **NUMBERS}
