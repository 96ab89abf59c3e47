#!/usr/bin/env python
"""Run another simplifier's own tests with bnfold in its place.

    .venv/bin/python scripts/peer_suites.py onnxscript CHECKOUT/onnxscript/optimizer CHECKOUT/onnxscript/rewriter/rules
    .venv/bin/python scripts/peer_suites.py onnxslim CHECKOUT/tests/test_fusion_patterns.py -- -k conv
    .venv/bin/python scripts/peer_suites.py onnxsim CHECKOUT/tests/test_python_api.py

Needs the tool itself (`pip install -e .[peers]`), a checkout of its repository, and what its tests import: onnxslim's
and onnxsim's need PyTorch, onnxscript's `parameterized`. What follows ``--`` goes to pytest. docs/simplifying.md says
what fails, and why.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from _environment import ROOT, require
from onnx import ModelProto

sys.path.insert(0, str(ROOT))

import bnfold

IGNORED = frozenset({
    *("check_n", "include_subgraph", "model_check", "model_check_inputs", "no_shape_infer", "onnx_shape_inference"),
    *("size_threshold", "skip_fusion_patterns", "skip_optimizations", "test_input_shapes", "verbose"),
})  # fmt: skip
"""Options that say how a tool goes about it, or how much it leaves out."""


def optimized(model: Any, output: str | None = None, **options: Any) -> ModelProto:
    """Return what bnfold makes of a model. Raises AssertionError for an option that only the tool has."""
    own = [name for name, value in options.items() if value and name not in IGNORED]
    assert not own, f"options of the tool's own: {own}"
    outcome = bnfold.optimize(model)
    if output:
        outcome.save(output)
    return outcome.to_proto()


def replace_onnxslim() -> None:
    """Replace `onnxslim.slim`."""
    slim = importlib.import_module("onnxslim")
    own = slim.slim

    def replaced(model: Any, output_model: str | None = None, **options: Any) -> ModelProto | None:
        if options.get("inspect") or isinstance(model, list):
            return own(model, output_model, **options)  # type: ignore[no-any-return]
        made = optimized(model, output_model, **options)
        return None if output_model else made

    for module in ("onnxslim", "onnxslim.cli", "onnxslim.cli._main"):
        importlib.import_module(module).slim = replaced  # type: ignore[attr-defined]


def replace_onnxsim() -> None:
    """Replace `onnxsim.simplify`."""
    sim = importlib.import_module("onnxsim")
    sim.simplify = lambda model, **options: (optimized(model, **options), True)  # type: ignore[attr-defined]


class Changes(int):
    """Whether a model changed: equal to every number of rewrites but 0, or to 0 alone."""

    def __eq__(self, other: object) -> bool:
        return bool(self) == bool(other)

    __hash__ = int.__hash__


def replace_onnxscript() -> None:
    """Replace the optimizer, constant folding and the application of rules, all of them in place."""
    from onnx_ir import serde

    def in_place(model: Any) -> Changes:
        before = serde.serialize_model(model)
        after = optimized(before)
        made = serde.deserialize_model(after)
        model.graph, model.ir_version = made.graph, made.ir_version
        model.functions.clear()
        model.functions.update(made.functions)
        return Changes(_operators(before) != _operators(after))

    def apply(_: Any, model: Any, *, tracer: Any = None, **_options: Any) -> Changes:
        assert tracer is None, "options of the tool's own: tracer"
        return in_place(model)

    def optimize(model: Any, *_: Any, **__: Any) -> Any:
        if isinstance(model, ModelProto):
            return optimized(model)
        in_place(model)
        return model

    optimizer, rewriter = map(importlib.import_module, ("onnxscript.optimizer", "onnxscript.rewriter"))
    rules = importlib.import_module("onnxscript.rewriter._rewrite_rule")
    rules.RewriteRuleSet.apply_to_model = rules.RewriteRule.apply_to_model = apply
    importlib.import_module("onnxscript.optimizer._constant_folding").fold_constants = optimize  # type: ignore[attr-defined]
    for name in ("optimize", "optimize_ir", "fold_constants"):
        setattr(optimizer, name, optimize)
    rewriter.rewrite = optimize  # type: ignore[attr-defined]


def _operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


TOOLS: dict[str, Callable[[], None]] = {
    "onnxslim": replace_onnxslim,
    "onnxsim": replace_onnxsim,
    "onnxscript": replace_onnxscript,
}


def main() -> int:
    """Run pytest; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("tests", nargs="+", help="files or folders of the tool's checkout, and options of pytest")
    arguments = parser.parse_args()
    require(arguments.tool, "pytest")
    import pytest

    TOOLS[arguments.tool]()
    alone = ["-o", "addopts=", "-p", "no:cacheprovider"]  # other processes would have the tool itself
    return int(pytest.main([*alone, "--no-header", "-q", *arguments.tests]))


if __name__ == "__main__":
    sys.exit(main())
