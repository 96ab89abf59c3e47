"""The versions of other domains: nodes of registered operators, over the steps that callers gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.analysis.described import described
from bnfold.converting.context import Inexpressible
from bnfold.converting.machine_learning import apply_edit, imports_of
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.walk import Blocker, GraphConverter
from bnfold.errors import BadSetting, Unsupported
from bnfold.ir.elements import FLOATS, numpy_type
from bnfold.registered import table
from bnfold.registered.table import RegisteredOperator
from bnfold.registered.types import DoesNotApply, NodeForm, StepFunction, returned


def convert_domains(walk: GraphConverter, model: ir.Model, wanted: Mapping[str, int]) -> None:
    """Bring domains to the versions that are wanted. Nodes that have no form there are blockers of the walk.

    Raises:
        BadSetting: The model has no operators of such a domain.
    """
    for domain, version in wanted.items():
        imports = [entry for entry in imports_of(model) if entry.domain == domain]
        if not imports:
            names = ", ".join(sorted({entry.domain for entry in imports_of(model)} - {"", "ai.onnx"}))
            has = f"; it has those of {names}" if names else ""
            raise BadSetting("domain_opsets", f"the model has no operators of {domain}{has}")
        for node in [*model.nodes()]:
            if node.domain == domain and not node.is_call:
                _convert(walk, node, version)
        for entry in imports if not walk.blockers else ():
            entry.version = version


def _convert(walk: GraphConverter, node: ir.Node, version: int) -> None:
    own = node.graph.opset(node.domain)
    conversion = NodeConversion(node, walk.context)
    try:
        steps = _steps(node, own, version)
        if steps:
            apply_edit(walk, conversion, lambda: _take(conversion, steps))
        elif own != version:
            walk.passed.pop(f"{node.domain}::{node.op_type}", None)
    except Unsupported as error:
        within = f" in {node.graph.path}" if node.graph.path else ""
        walk.blockers.append(Blocker(node.op_type, None, f"{conversion.label!r}{within}", str(error)))
        walk.places.append((node.graph.path, next((value.name for value in node.outputs if value is not None), "")))


def _steps(node: ir.Node, own: int, version: int) -> list[tuple[StepFunction, int]]:
    """Return the steps from a version of the domain to another one, each with the version that it leads to.

    Raises Inexpressible if one of them was not registered.
    """
    if own == version:
        return []
    name = f"{node.domain}::{node.op_type}"
    rows = table.registrations(node.domain, node.op_type)
    first, last = (_place(rows, each, name) for each in (own, version))
    if first < last:
        ways = [("upgrade", place, place) for place in range(first + 1, last + 1)]
    else:
        ways = [("downgrade", place, place - 1) for place in range(first, last, -1)]
    return [
        (_given(rows[place], way, rows[place - 1], name), rows[reached].first_version) for way, place, reached in ways
    ]


def _place(rows: tuple[RegisteredOperator, ...], version: int, name: str) -> int:
    place = next((place for place, row in enumerate(rows) if row.holds_at(version)), None)
    if place is None:
        raise Inexpressible(f"{name} is not registered for version {version} of its domain")
    return place


def _given(newer: RegisteredOperator, way: str, older: RegisteredOperator, name: str) -> StepFunction:
    assert newer.versions is not None, "one of several registrations has versions"
    step = newer.versions.upgrade if way == "upgrade" else newer.versions.downgrade
    if step is None:
        text = f"between versions {older.first_version} and {newer.first_version}"
        raise Inexpressible(f"{name} was registered without {way}= {text}")
    return step


def _take(conversion: NodeConversion, steps: list[tuple[StepFunction, int]]) -> None:
    """Take the steps. Raises Inexpressible with a node's reason, or with what a caller's function raised."""
    own = conversion.graph.opset(conversion.node.domain)
    for step, version in steps:
        try:
            _write(conversion, returned(step(described(conversion.node, own)), NodeForm))
        except DoesNotApply as reason:
            raise Inexpressible(f"has no form in version {version} of its domain: {reason}") from reason
        except Unsupported:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise Inexpressible(f"its step to version {version} raised {text}") from error
        own = version


def _write(conversion: NodeConversion, form: NodeForm) -> None:
    """Give the node its new attributes and inputs."""
    node = conversion.node
    inputs = [_input(conversion, each) for each in form.inputs] if form.inputs is not None else None
    messages = [
        onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(each) if isinstance(each, np.ndarray) else each)
        for name, each in form.attributes.items()
    ]
    node.replace_attrs(messages)
    if inputs is not None:
        node.set_inputs(inputs)
    conversion.touched = True


def _input(conversion: NodeConversion, given: Any) -> ir.Value | None:
    if given is None:
        return None
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < len(conversion.node.inputs):
            raise ValueError(f"there is no input {given}")
        return conversion.node.inputs[given]
    array = np.array(given)
    if array.dtype == np.float64:
        first = conversion.node.input(0)
        dtype = None if first is None else conversion.context.types.dtype(first)
        if dtype in FLOATS:
            array = array.astype(numpy_type(dtype))
    return conversion.constant(array, "input")
