"""If below opset 11: branches of one shape, or a reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Upgraded = Callable[..., Any]
Text = Callable[..., str]


def branching(text: Text, then: str, other: str) -> str:
    """Return a model that returns the shape of what one of two branches makes."""
    body = f"c = Cast <to = 9> (b) v = If (c) <then_branch = t () => (float[] p) {{ p = {then} }}, "
    body += f"else_branch = e () => (float[] q) {{ q = {other} }}> y = Shape (v)"
    return text(11, "float[1, 3, 1, n] x, bool[n] m, int64 b", body, outputs="int64[] y")


@pytest.mark.parametrize("b", [0, 1])
@pytest.mark.parametrize(
    ("then", "other", "differ"),
    [
        ("Relu (x)", "Abs (x)", False),
        ("Squeeze <axes = [0]> (x)", "Squeeze <axes = [0]> (x)", False),
        ("Compress <axis = 3> (x, m)", "Compress <axis = 3> (x, m)", False),  # sizes that inference names, each anew
        ("Compress <axis = 3> (x, m)", "Identity (x)", True),  # one that it names, beside one of the file
        ("Compress <axis = 3> (x, m)", "Squeeze (x)", True),
        ("Concat <axis = 1> (x, x)", "Identity (x)", True),
        ("Squeeze (x)", "Identity (x)", True),
        ("Squeeze <axes = [0]> (x)", "Squeeze <axes = [2]> (x)", True),
        ("Squeeze <axes = [0]> (x)", "Relu (x)", True),
    ],
)
def test_branches(
    lowered: Lowered, upgraded: Lowered, text: Text, then: str, other: str, b: int, *, differ: bool
) -> None:
    source = branching(text, then, other)
    feeds = {"x": np.ones((1, 3, 1, 2), np.float32), "m": np.array([True, False]), "b": np.array(b, np.int64)}
    if not differ:
        assert lowered(source, 10, feeds=feeds).ops == ["Cast", "If", "Shape"]
        return
    with pytest.raises(ConversionBlocked, match=r"its branches may make different shapes \('p' and 'q'\)"):
        upgraded(source, 10, compare=False)


def viewing(
    then: str, other: str, dims: str = "n, 3, 1, m", opset: int = 13, condition: str = "bool c"
) -> onnx.ModelProto:
    """Return a model of one of two branches, of which only the attributes of the file tell which one is which."""
    body = f"""r = Relu (x) v = If (c) <then_branch = t () => (float[] p) {{ p = {then} }},
    else_branch = e () => (float[] q) {{ q = {other} }}> y = Neg (v)"""
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{dims}] x, {condition}) => (float[] y) {{ {body} }}'
    source = onnx.parser.parse_model(text)
    numbers = (("i", [0]), ("j", [2]), ("k", [0, 2]), ("l", [1]))
    source.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(axes), name) for name, axes in numbers)
    return source


VIEWS = {
    "a dropped axis": ("Squeeze (r, j)", "Identity (r)", (2, 3, 1, 5)),
    "kept if true": ("Identity (r)", "Squeeze (r, j)", (2, 3, 1, 5)),
    "two dropped axes": ("Identity (r)", "Squeeze (r, k)", (1, 3, 1, 5)),
    "one or two dropped axes": ("Squeeze (r, k)", "Squeeze (r, j)", (1, 3, 1, 5)),
    "an added axis": ("Unsqueeze (r, l)", "Identity (r)", (2, 3, 1, 5)),
    "an added and a dropped axis": ("Unsqueeze (r, j)", "Squeeze (r, j)", (2, 3, 1, 5)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("condition", ["bool c", "bool[1] c"])
def test_axes_that_one_branch_drops_or_adds(
    lowered: Lowered, name: str, condition: str, *, swapped: bool, chosen: bool
) -> None:
    then, other, shape = VIEWS[name]
    source = viewing(then, other, "n, 3, 1, 5", condition=condition)
    (node,) = [node for node in source.graph.node if node.op_type == "If"]
    if swapped:  # the order of attributes has no meaning
        node.attribute.sort(key=lambda attribute: attribute.name)
    else:
        node.attribute.sort(key=lambda attribute: attribute.name, reverse=True)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for size in (shape, (0, *shape[1:])) if shape[0] != 1 else (shape,):
        feeds = {"x": np.resize(x, size), "c": np.array([chosen] if "[" in condition else chosen)}
        outcome = lowered(source, 9, feeds=feeds)
        assert "If" not in outcome.ops
        assert outcome.ops.count("Compress") == 1


def test_an_axis_that_may_be_empty(upgraded: Upgraded) -> None:
    """Before opset 14, a Reshape to 0 means the size of the same place, which may be another one."""
    reason = "has branches of different axes, and axis 3 of 'r' may be empty"
    with pytest.raises(ConversionBlocked, match=reason):
        upgraded(viewing("Squeeze (r, j)", "Identity (r)"), 9, compare=False)


def test_there_is_no_compress_before_opset_9(upgraded: Upgraded) -> None:
    with pytest.raises(ConversionBlocked, match="needs Compress: does not exist before opset 9"):
        upgraded(viewing("Squeeze (r, j)", "Identity (r)", "n, 3, 1, 5"), 8, compare=False)


def test_a_branch_that_is_missing(upgraded: Upgraded) -> None:
    source = viewing("Squeeze (r, j)", "Identity (r)", "n, 3, 1, 5")
    (node,) = [node for node in source.graph.node if node.op_type == "If"]
    del node.attribute[1:]
    with pytest.raises(ConversionBlocked, match="does not have a then_branch and an else_branch"):
        upgraded(source, 9, compare=False)
