"""Adapters that write what no runtime takes although it computes the same: it is never verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.converting import registry, walk
from bnfold.converting.node_conversion import NodeConversion
from bnfold.errors import Unsupported, VerificationFailed

Array = np.ndarray[Any, Any]
Alteration = Callable[[ir.Node], None]
PARAMETERS = ", ".join(f"float[3] {name} = {{1, 2, 3}}" for name in ("s", "b", "m", "v"))
STATED = {5: "<is_test = 1, consumed_inputs = [0, 0, 0, 1, 1]>", 6: "<is_test = 1>", 9: ""}
"""What says inference: of versions 1 and 6, onnxruntime has no kernel."""


def saved(path: Path, opset: int) -> Path:
    text = f"""<ir_version: 4, opset_import: ["" : {opset}]> g (float[1,3,5,5] x) => (float[1,3,3,3] y)
        <float[3,3,3,3] w = {{{", ".join(map(str, range(81)))}}}, {PARAMETERS}>
        {{ c = Conv <kernel_shape = [3, 3]> (x, w)  n = BatchNormalization {STATED[opset]} (c, s, b, m, v)
           y = Relu (n) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def between(node: ir.Node, op_type: str, *operands: Array, **attrs: int) -> ir.Value:
    """Let the node behind read what such an operator makes of the output."""
    (made,) = node.outputs
    assert made is not None
    readers = [*made.uses]
    constants = [node.graph.add_constant("operand", operand) for operand in operands]
    new = node.graph.insert(op_type, [made, *constants], ["altered"], after=node)
    for name, number in attrs.items():
        new.set_attr(name, number)
    (value,) = new.outputs
    assert value is not None
    for reader, slot in readers:
        reader.set_input(slot, value)
    return value


def a_type_that_the_version_lacks(node: ir.Node) -> None:
    between(node, "Pow", np.array(1))  # of a float to an integer since opset 12


def an_axis_from_the_back(node: ir.Node) -> None:
    flat = between(node, "Flatten", axis=-2)  # since opset 11
    assert flat.producer is not None
    between(flat.producer, "Reshape", np.array([1, 3, 3, 3]))


def an_import_left_out(node: ir.Node) -> None:
    between(node, "Identity")
    node.graph.values["altered"].producer.proto.domain = "com.microsoft"  # type: ignore[union-attr]


def a_kernel_that_does_not_fit(node: ir.Node) -> None:
    (conv,) = (each for each in node.graph.nodes if each.is_op("Conv"))
    conv.set_attr("kernel_shape", [2, 2])


def two_types_that_have_to_be_one(node: ir.Node) -> None:
    between(node, "Add", np.zeros(1, np.float16))


def an_output_that_the_operator_lacks(node: ir.Node) -> None:
    (relu,) = (each for each in node.graph.nodes if each.is_op("Relu"))
    relu.set_output(1, node.graph.fresh("more"))


def an_attribute_that_the_version_lacks(node: ir.Node) -> None:
    between(node, "Softplus")
    altered = node.graph.values["altered"].producer
    assert altered is not None
    altered.set_op_type("Identity")
    altered.set_attr("alpha", 1.0)


ALTERATIONS = [
    a_type_that_the_version_lacks, an_axis_from_the_back, an_import_left_out, a_kernel_that_does_not_fit,
    two_types_that_have_to_be_one, an_output_that_the_operator_lacks, an_attribute_that_the_version_lacks,
]  # fmt: skip


@pytest.mark.parametrize("runtime", ["onnxruntime", "none"])
@pytest.mark.parametrize("opset", STATED)
@pytest.mark.parametrize("alter", ALTERATIONS)
def test_what_loads_nowhere_is_never_verified(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alter: Alteration,
    opset: int,
    runtime: Literal["onnxruntime", "none"],
) -> None:
    adapter = registry.BY_MEANING["BatchNormalization"]

    def altered(conversion: NodeConversion) -> None:
        adapter(conversion)
        alter(conversion.node)

    source, target = saved(tmp_path / "a.onnx", opset), tmp_path / "b.onnx"
    settings = bnfold.VerifyOptions(runtime=runtime)
    assert bnfold.upgrade(source, target, target_opset=10, verify=settings).status == "verified"
    target.unlink()
    monkeypatch.setattr(walk.GraphConverter, "_says_all", lambda *_: False)
    monkeypatch.setitem(registry.BY_MEANING, "BatchNormalization", altered)
    try:
        outcome = bnfold.upgrade(source, target, target_opset=10, verify=settings)
    except (VerificationFailed, Unsupported):
        assert not target.exists()
    else:
        assert outcome.status == "unverified", outcome.verdict
