"""Modes ``fold``, ``affines``, ``optimize``, ``upgrade``, ``decompose``: draw a legal model, rewrite it, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from bnfold import ir
from bnfold.ir.fixing import fix_inputs
from bnfold.settings import Options
from fuzz import channels, delivered, feeding, forms, learned, norms, phases, runtime, stacks, upgrades, zeros
from fuzz import draw as chains
from fuzz import judge as comparison
from fuzz.case import Case, Outcome

Settings = dict[str, Any]
HUGE = 1 << 30
DEFAULTS: dict[str, Settings] = {
    "fold": {"target_opset": "keep"},
    "affines": {"target_opset": "keep", "all_affines": True, "merge_branches": True},
    "optimize": {"decompose": "remaining"},
    "upgrade": {"fold": False},
    "decompose": {},
    "convert": {"fold": False},
}
EQUALIZED = ("fold", "optimize")
EXCHANGED = ("fold", "affines", "optimize")
SHARES, DELIVERED, DAMAGED = 12, 3, 7
OWN: dict[int, Callable[[int], tuple[Any, ...]]] = {
    **dict.fromkeys((1, 10), zeros.draw),
    **dict.fromkeys((5, 8), learned.draw),
    **dict.fromkeys((2, 9), channels.draw),
    **dict.fromkeys((DELIVERED, DAMAGED), lambda seed: chains.draw(seed, onnx.TensorProto.FLOAT)),
}
"""What mode ``optimize`` draws of `SHARES` seeds besides, by the remainder."""
DRAWS: dict[str, Callable[[int], tuple[Any, ...]]] = {"upgrade": upgrades.draw, "decompose": norms.draw}


def draw(mode: str, seed: int) -> Case:
    """Draw the model of a seed, its inputs, and the options of its mode."""
    equalize = mode in EQUALIZED and seed % 3 > 0
    usual = norms.among_others if mode == "decompose" and seed % 4 == 0 else DRAWS.get(mode, chains.draw)
    usual = stacks.draw if equalize and seed % 2 else usual
    own = OWN.get(seed % SHARES) if mode == "optimize" else None
    model, feeds, *drawn = (own or usual)(seed)
    settings = DEFAULTS[mode] | (drawn[0] if drawn else {}) | {"equalize": equalize}
    if own and seed % SHARES in (DELIVERED, DAMAGED):
        settings[upgrades.DELIVER] = seed // SHARES if seed % SHARES == DAMAGED else -1
    elif own:
        settings[upgrades.DRAWN] = True
    if mode in EXCHANGED:
        settings["exchange"] = ("auto", "always")[seed // 2 % 2]
    if mode == "optimize":
        settings["constants"] = ("lift", "keep")[seed // 4 % 2]
        settings["group_norm"] = seed // 8 % 2 == 0
    stored = {tensor.name for tensor in model.graph.initializer}
    if stored.intersection(info.name for info in model.graph.input):
        settings["overridable"] = ("keep", "freeze", "auto")[seed % 3]
    if settings.get("overridable", "keep") != "keep":  # callers may set other values only if the inputs stay
        feeds = {name: array for name, array in feeds.items() if name not in stored}
    if (
        mode == "optimize"
        and seed % 5 == 0
        and upgrades.DELIVER not in settings
        and all(array.size for array in feeds.values())
    ):
        places = [place for places in feeding.open_dims(model, feeds).values() for place in places]
        settings["fix_shapes"] = {name: [*feeds[name].shape] for name, _ in places}
    return Case(model.SerializeToString(), feeds=feeds, settings=settings)


def options(settings: Settings) -> Options:
    """Return the options of a case's settings."""
    changes: dict[str, Any] = {
        key: frozenset(value) if key == "decompose_ops" else value
        for key, value in upgrades.to_options(settings).items()
    }
    return replace(Options(max_growth=HUGE), **changes)


def judge(mode: str, case: Case, folder: Path) -> Outcome:
    """Judge in float64, and in onnxruntime if that runs the original."""
    how, result = options(dict(case.settings)), folder / "result.onnx"
    if forms.WRITTEN in case.settings:
        return forms.judge(case, folder, how)
    if upgrades.DELIVER in case.settings:
        return delivered.judge(case, folder, how)
    proto = onnx.ModelProto.FromString(case.model)
    outcome = comparison.judge(proto, case.feeds, how, keep=result)
    if outcome.refused and case.settings.get(upgrades.COMPLETE):
        return replace(outcome, error=f"refused: {outcome.behaviour}")
    if outcome.error or not result.is_file() or mode in ("fold", "affines"):
        return outcome
    source = case.lay_out(folder)
    if how.fix_shapes:
        fixed = ir.load(source)
        fix_inputs(fixed, how.fix_shapes)
        ir.save(fixed, source := folder / "fixed.onnx")
    with phases.theirs("onnxruntime"):
        error, _ = runtime.compare(source, result, case.feeds if upgrades.DRAWN in case.settings else None)
    return replace(outcome, error=error)
