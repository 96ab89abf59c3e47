"""What a user may choose: stated once, and checked as soon as it is chosen.

The public functions take these classes, and the command line makes its options from their fields: the type of a field
says what may be given, and its metadata what it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from bnfold.settings.progress import ESTIMATE, PHASES
from bnfold.settings.result import OutputOptions, Tolerance, VerifyOptions
from bnfold.settings.rewriting import (
    LOWEST_IR_VERSION,
    NORMALIZATIONS,
    ONE_JOB,
    Opset,
    OptionFields,
    Options,
    Policy,
    simplified,
    with_one_name,
)

__all__ = [
    "ESTIMATE",
    "LOWEST_IR_VERSION",
    "NORMALIZATIONS",
    "ONE_JOB",
    "PHASES",
    "Opset",
    "OptionFields",
    "Options",
    "OutputOptions",
    "Policy",
    "Tolerance",
    "VerifyOptions",
    "simplified",
    "to_json",
    "with_one_name",
]


def to_json(value: Any) -> Any:
    """Return a value in plain JSON types; what JSON has no word for (a path, nan, inf) is its text.

    Sets are sorted, so that equal settings have equal text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, frozenset | tuple | list):
        return [to_json(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    has_no_word = isinstance(value, Path) or (isinstance(value, float) and not isfinite(value))
    return str(value) if has_no_word else value
