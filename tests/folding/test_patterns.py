"""Every pattern of docs/patterns.md: folded right where that is exact, right numbers everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from _patterns import asked, backward, branches, demands, forward, fused, listed, sampled, spelled_out, traps
from _patterns.parts import Pattern
from _patterns.verdict import judge

from bnfold import ir
from bnfold.pipeline import passes
from bnfold.settings import Options

EXACT = [
    *backward.ROWS, *forward.ROWS, *spelled_out.ROWS,
    *(row for module in (listed, branches, demands, sampled, fused, asked) for row in module.EXACT),
]  # fmt: skip
EXCHANGED = [pattern for pattern in EXACT if "exchange" in pattern.options]
TRAPS = [*traps.ROWS, *(row for module in (listed, branches, demands, sampled, fused, asked) for row in module.TRAPS)]


WIDE = Options(target_opset="keep", all_affines=True, max_growth=1 << 30)


def verdict(pattern: Pattern, folder: Path, options: Options = WIDE) -> str:
    source, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(pattern.model(), source)
    model = ir.load(source)
    passes.rewrite(model, replace(options, **pattern.options))
    ir.save(model, out)
    return judge(source, out, "", whole=pattern.whole, measure=pattern.measure)


@pytest.mark.parametrize("pattern", EXACT, ids=lambda pattern: pattern.name)
def test_exact(pattern: Pattern, tmp_path: Path) -> None:
    assert verdict(pattern, tmp_path) == ("exchanged" if pattern in EXCHANGED else "folded")


@pytest.mark.parametrize("pattern", EXCHANGED, ids=lambda pattern: pattern.name)
def test_what_only_an_option_exchanges_is_left(pattern: Pattern, tmp_path: Path) -> None:
    assert verdict(replace(pattern, options={}), tmp_path) == "left"


@pytest.mark.parametrize("pattern", TRAPS, ids=lambda pattern: pattern.name)
def test_traps(pattern: Pattern, tmp_path: Path) -> None:
    assert verdict(pattern, tmp_path) in ("folded", "exchanged", "left")


@pytest.mark.parametrize("pattern", spelled_out.ROWS, ids=lambda pattern: pattern.name)
def test_what_is_spelled_out_folds_by_default(pattern: Pattern, tmp_path: Path) -> None:
    assert verdict(pattern, tmp_path, Options(target_opset="keep")) == "folded"


def test_there_are_as_many_as_the_table_promises() -> None:
    names = [pattern.name for pattern in (*EXACT, *TRAPS)]
    assert len(EXACT) >= 80
    assert len(set(names)) == len(names)
