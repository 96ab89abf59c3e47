"""Mode ``upgrade``: which of its kinds of models a seed draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx

from _fuzz import downward, forms, functions, legacy, narrow
from _fuzz.builder import Array

Kind = Callable[[int], tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]]
COMPLETE = "complete"
"""The setting that says that nothing may be refused."""
JUDGED = (forms.WRITTEN, COMPLETE)
"""The settings that are no options of bnfold's."""


def _functions(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    model, feeds, settings = functions.draw(seed)
    return model, feeds, settings | {COMPLETE: True}


KINDS: tuple[Kind, ...] = (
    *[legacy.draw] * 5,
    forms.draw,
    downward.draw,
    _functions,
    *[legacy.draw] * 3,
    forms.draw,
    narrow.draw,
)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """A model, its inputs, and what to upgrade it to."""
    return KINDS[seed % len(KINDS)](seed)


def to_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that only say how to judge."""
    return {name: value for name, value in settings.items() if name not in JUDGED}
