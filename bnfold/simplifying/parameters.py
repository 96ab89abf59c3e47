"""Parameters of operators: attributes in some opsets, inputs in others, such as the axes of a Squeeze."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import Operand
from bnfold.ir.forms import form_of
from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.tensor import Array
from bnfold.report.rewrites import Rewrite
from bnfold.simplifying.plan import Simplification, replace


@cache
def slot_of(op_type: str, opset: int, name: str) -> int | None:
    """Return the input that has this name at an opset; None if there is none, as where it is an attribute."""
    version = version_at(op_type, opset)
    names = [parameter.name for parameter in schema_of(op_type, version).inputs] if version is not None else []
    return names.index(name) if name in names else None


def numbers(node: ir.Node, name: str, known: Proven, default: list[int] | None = None) -> list[int] | None:
    """Return the integers of a parameter: ``default`` if it is left out, None if it is not known."""
    slot = slot_of(node.op_type, node.graph.opset(), name)
    if slot is None:
        stated: list[int] | None = node.attr(name, default)
        return stated
    return default if node.input(slot) is None else known.numbers(node.input(slot))


def replacement(
    rewrite: Rewrite,
    node: ir.Node,
    op_type: str,
    source: Operand,
    parameters: Mapping[str, Array],
    attrs: Mapping[str, Any] | None = None,
) -> Simplification | None:
    """Plan an operator that reads ``source``, in the form of the graph's opset; None if that has no such parameters."""
    opset = node.graph.opset()
    version = version_at(op_type, opset)
    if version is None:
        return None
    inputs: list[Operand] = [source]
    attributes = dict(attrs or {})
    for name, content in parameters.items():
        slot = slot_of(op_type, opset, name)
        if slot is not None:
            inputs += [None] * (slot + 1 - len(inputs))
            inputs[slot] = content
        elif name in form_of(op_type, version).attributes and _is_exact(content):
            attributes[name] = content.tolist()
        else:
            return None
    return replace(rewrite, node, op_type, inputs, attributes)


def _is_exact(content: Array) -> bool:
    """Whether an attribute can hold these numbers: floats are float32 there."""
    return content.dtype.kind == "i" or bool((content.astype(np.float32) == content).all())
