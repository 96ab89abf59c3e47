"""Small models in a line of text, simplified, and run by onnx's reference evaluator at several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

from bnfold import ir
from bnfold.report.events import Report
from bnfold.simplifying import remove_unread, simplify


def model(head: str, body: str, constants: str = "", *, opset: int = 15, ir_version: int = 8) -> onnx.ModelProto:
    """The model of one graph."""
    stored = f"<{constants}>" if constants else ""
    return onnx.parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["": {opset}]> g {head} {stored} {{ {body} }}'
    )


def simplified(proto: onnx.ModelProto, *, group_norm: bool = False) -> tuple[onnx.ModelProto, Report]:
    """What becomes of a model, and what is said about it."""
    loaded, report = ir.load(proto.SerializeToString()), Report()
    remove_unread(loaded, report)
    simplify(loaded, report, group_norm=group_norm)
    return onnx.ModelProto.FromString(ir.encode(loaded)), report


def operators(proto: onnx.ModelProto) -> list[str]:
    """The operators of the main graph, in order."""
    return [node.op_type for node in proto.graph.node]


def assert_equal(before: onnx.ModelProto, after: onnx.ModelProto, *shapes: Sequence[int], **fed: Any) -> None:
    """Both models make the same of the input ``x`` at every one of some shapes."""
    first, second = ReferenceEvaluator(before), ReferenceEvaluator(after)
    assert [info.name for info in before.graph.output] == [info.name for info in after.graph.output]
    assert [*before.graph.input] == [*after.graph.input]
    for shape in shapes:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        for old, new in zip(first.run(None, {"x": x, **fed}), second.run(None, {"x": x, **fed}), strict=True):
            np.testing.assert_array_equal(old, new)
            assert (old.dtype, old.shape) == (new.dtype, new.shape)


def run(proto: onnx.ModelProto, **fed: Any) -> Any:
    """The first output, as onnx's reference evaluator computes it."""
    return ReferenceEvaluator(proto).run(None, fed)[0]  # type: ignore[index]
