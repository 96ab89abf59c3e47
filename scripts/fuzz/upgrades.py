"""Mode ``upgrade``: choose a kind of model for a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx

from fuzz import downward, forms, functions, legacy, narrow
from fuzz.builder import Array

Kind = Callable[[int], tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]]
COMPLETE = "complete"
"""The setting that forbids a refusal."""
DRAWN, DELIVER = "drawn", "deliver"
"""Settings: onnxruntime gets the drawn inputs; the model is damaged, and written with verification (`delivered`)."""
JUDGED = (forms.WRITTEN, COMPLETE, DRAWN, DELIVER)
"""Settings that are no options of bnfold's."""


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
    """Draw a model, its inputs, and the upgrade's target."""
    return KINDS[seed % len(KINDS)](seed)


def to_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those for the judgement alone."""
    return {name: value for name, value in settings.items() if name not in JUDGED}
