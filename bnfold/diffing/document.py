"""The comparison of two models as plain JSON types: what reports, pages and the terminal are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from bnfold import analysis, ir, settings
from bnfold.diffing.changes import GraphComparison, GraphDifference, MatchedChange, Texts
from bnfold.diffing.constants import described
from bnfold.diffing.identity import Identities
from bnfold.diffing.matching import Matching
from bnfold.diffing.result import Differences
from bnfold.diffing.values import QUICK_NODES, QUICK_SECONDS, compare_values
from bnfold.ir.elements import type_name
from bnfold.ir.value import Dim, shape_of
from bnfold.pipeline.explain.neighbourhood import Neighbourhood, add_context, feeding, reading, to_json
from bnfold.report.totals import count
from bnfold.settings import VerifyOptions
from bnfold.verification.engine import paired

MAX_DRAWN = 1500
"""Differences with a drawing; more no page shows."""
MOST = 3
"""Nodes or constants that one line names."""

_LISTED = "weights listed as inputs"
"""IR version 3 wants all of them there; callers cannot feed one, so that it is no interface."""

Rows = list[dict[str, str]]


def facts(model: ir.Model) -> dict[str, Any]:
    """Return what a model is: sizes, interface, opsets, metadata."""
    totals, proto = count(model), model.proto
    metadata = {
        name: str(getattr(proto, name)) for name in ("producer_name", "producer_version", "domain", "doc_string")
    }
    return {
        "path": model.label,
        "nodes": totals.nodes,
        "constant_nodes": sum(map(_is_constant, model.nodes())),
        "weights": totals.weights,
        "operators": dict(totals.operators),
        "ir_version": proto.ir_version,
        "opsets": _opsets(proto),
        "inputs": {value.name: _typed(value) for value in model.graph.inputs if not _is_weight(value)},
        "outputs": {value.name: _typed(value) for value in model.graph.outputs},
        "functions": {function.path: str(_opsets(function.proto)) for function in model.functions},
        "metadata": metadata | {entry.key: entry.value for entry in proto.metadata_props},
    }


def _is_constant(node: ir.Node) -> bool:
    """Whether nodes are matched without it, because it makes only constants, which their consumers are matched by."""
    return all(analysis.constant(value) is not None for value in node.outputs if value is not None)


def _opsets(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}


def diff(
    before: ir.Model,
    after: ir.Model,
    *,
    drawn: bool = False,
    values: bool | None = None,
    checks: VerifyOptions | None = None,
) -> dict[str, Any]:
    """Compare two models node by node.

    Args:
        before: One model.
        after: The other one.
        drawn: Whether to list the nodes around every difference, for drawings.
        values: Whether to run both, and find where their values diverge; by default if that is quick.
        checks: The inputs to run them on.

    Returns:
        The differences as plain JSON types; docs/diff.md describes them.

    Raises:
        BadInput: A constant that cannot be read.
    """
    given = after
    after, _ = paired(before, given, any_float=True)
    common = _common(before.graph.inputs, after.graph.inputs) | _common(before.graph.outputs, after.graph.outputs)
    with analysis.evaluated_once(before), analysis.evaluated_once(after):
        known = Identities()
        known.add(before, common)
        known.add(after, common)
        match = Matching(known)
        functions = {function.path: function for function in after.functions}
        for function in before.functions:
            if function.path in functions:
                match.add(function, functions[function.path], set())
        match.add(before.graph, after.graph, common)
        document = _compared(before, after, GraphComparison(known, match), match, drawn=drawn)
    if after is not given:
        document["after"] = facts(given)
        document["interface"] = [*_renamed(given, after), *document["interface"]]
        document["equal"] = False
    few = max(document["before"]["nodes"], document["after"]["nodes"]) <= QUICK_NODES
    if values or (values is None and few):
        checks = checks or VerifyOptions()
        seconds = checks.verify_seconds if values else QUICK_SECONDS
        document["values"] = settings.to_json(compare_values(before, after, match, checks, seconds=seconds))
    return Differences(document)


def _common(old: Sequence[ir.Value], new: Sequence[ir.Value]) -> set[str]:
    return {value.name for value in old} & {value.name for value in new}


def _compared(
    before: ir.Model, after: ir.Model, found: GraphComparison, match: Matching, *, drawn: bool
) -> dict[str, Any]:
    """Return what differs, and how much is the same."""
    old, new = facts(before), facts(after)
    interface = [*_interface(before, after), *(_row(what, pair) for what, pair in found.outputs())]
    notes = [_row("IR version", pair) for _, pair in _unlike({"": old["ir_version"]}, {"": new["ir_version"]})]
    used = {name.rpartition("::")[0] or "ai.onnx" for side in (old, new) for name in side["operators"]}
    for name, pair in _unlike(old["opsets"], new["opsets"]):
        (interface if name in used else notes).append(_row(f"opset {name}", pair))
    interface += [_row(f"function {name}", pair) for name, pair in _unlike(old["functions"], new["functions"])]
    listed = [{_LISTED: sum(map(_is_weight, model.graph.inputs))} for model in (before, after)]
    notes += [_row(name, pair) for name, pair in _unlike(*listed)]
    notes += [_row(name, pair) for name, pair in _unlike(old["metadata"], new["metadata"])]
    notes += [_row(name, pair) for name, pair in found.versions()]
    differences = [
        _difference(each, match, drawn=drawn and place < MAX_DRAWN) for place, each in enumerate(found.differences)
    ]
    return {
        "before": old,
        "after": new,
        "equal": not interface and not differences,
        "interface": interface,
        "metadata": notes,
        "matched": len(match.pairs),
        "same": found.same,
        "differences": differences,
        "values": None,
    }


def _renamed(given: ir.Model, after: ir.Model) -> Iterator[dict[str, str]]:
    """Yield the inputs and outputs that only have another name; ``after`` has the first model's names for them."""
    for what in ("input", "output"):
        pairs = zip(getattr(after.graph, f"{what}s"), getattr(given.graph, f"{what}s"), strict=True)
        for old, new in pairs:
            if old.name != new.name:
                yield _row(f"name of {what} {old.name}", (old.name, new.name))


def _unlike(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Texts]]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, (str(old.get(name, "absent")), str(new.get(name, "absent")))


def _row(what: str, pair: Texts) -> dict[str, str]:
    return {"what": what, "before": pair[0], "after": pair[1]}


def _typed(value: ir.Value) -> str:
    kind = value.type
    if kind is not None and not kind.HasField("tensor_type"):
        return str(kind.WhichOneof("value") or "unknown").removesuffix("_type")
    shape = _declared_shape(value)
    dims = "unknown dims" if shape is None else f"[{', '.join(str(dim or '?') for dim in shape)}]"
    return f"{type_name(value.dtype)}{dims}"


def _declared_shape(value: ir.Value) -> tuple[Dim, ...] | None:
    """Return the shape that the file declares.

    Of an output this is what its own entry says: a constant may have another shape, and so may an entry in value_info.
    """
    outputs = value.graph.proto.output if value.is_output else ()
    kind = next((info.type for info in outputs if info.name == value.name), value.type)
    return value.shape if kind is None else shape_of(kind)


def _interface(before: ir.Model, after: ir.Model) -> Iterator[dict[str, str]]:
    """Yield inputs and outputs that callers see change. The name of a dynamic size makes no difference.

    Weights that an exporter listed as inputs would be hundreds of rows: they are one.
    """
    for what in ("input", "output"):
        listed = [getattr(model.graph, f"{what}s") for model in (before, after)]
        old, new = (
            {value.name: value for value in each if value.is_output or not _is_weight(value)} for each in listed
        )
        lone = [name for name in old.keys() ^ new.keys() if (old.get(name) or new[name]).is_initializer]
        many = lone if what == "input" and len(lone) > MOST else []
        if many:
            texts = [_some([name for name in each if name in many]) or "absent" for each in (old, new)]
            yield _row("inputs with a default", (texts[0], texts[1]))
        for name in {**old, **new}:
            one, other = old.get(name), new.get(name)
            if name not in many and _called(one) != _called(other):
                yield _row(f"{what} {name}", (_typed(one) if one else "absent", _typed(other) if other else "absent"))
        if list(old) != list(new) and set(old) == set(new):
            yield _row(f"order of the {what}s", (", ".join(old), ", ".join(new)))


def _is_weight(value: ir.Value) -> bool:
    """Whether an input is only listed because IR version 3 wants all initializers there."""
    return analysis.constant(value) is not None


def _called(value: ir.Value | None) -> object:
    """Return what a caller has to know of an input or an output."""
    if value is None:
        return None
    kind, shape = value.type, _declared_shape(value)
    default = value.tensor if value.is_input else None
    sizes = None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)
    stored = None if default is None else described(default)
    return value.dtype, sizes, kind is None or kind.HasField("tensor_type"), stored


def _difference(found: GraphDifference, match: Matching, *, drawn: bool) -> dict[str, Any]:
    sides = (
        [*(change.old for change in found.changes), *found.old],
        [*(change.new for change in found.changes), *found.new],
    )
    labels = [[f"{node.op_type} {node.label}" for node in nodes] for nodes in (found.old, found.new)]
    told = [f"only in {side}: {_some(nodes)}" for side, nodes in zip("AB", labels, strict=True) if nodes]
    told += map(_sentence, found.changes)
    first = (*sides[0], *sides[1])[0]
    return {
        "kind": "changed" if sides[0] and sides[1] else "removed" if sides[0] else "added",
        "graph": found.graph,
        "name": f"{first.op_type} {first.label}",
        "text": _some(told, "; "),
        "changes": [_change(change) for change in found.changes],
        "before": labels[0],
        "after": labels[1],
        "drawing": _drawing(found, sides, match) if drawn else None,
    }


def _change(change: MatchedChange) -> dict[str, Any]:
    return {
        "before": f"{change.old.op_type} {change.old.label}",
        "after": f"{change.new.op_type} {change.new.label}",
        "attributes": [_row(name, pair) for name, pair in change.attributes.items()],
        "inputs": [_row(slot, pair) for slot, pair in change.inputs.items()],
        "outputs": change.outputs and list(change.outputs),
        "constants": settings.to_json(change.constants),
    }


def _sentence(change: MatchedChange) -> str:
    parts = [f"{name} {pair[0] or 'absent'} → {pair[1] or 'absent'}" for name, pair in change.attributes.items()]
    parts += [_constant_text(constant) for constant in change.constants]
    parts += [f"input {slot}: {pair[0]} → {pair[1]}" for slot, pair in change.inputs.items()]
    parts += [f"outputs {' → '.join(change.outputs)}"] if change.outputs else []
    return f"{change.old.op_type} {change.old.label}: {_some(parts)}"


def _constant_text(constant: Mapping[str, Any]) -> str:
    name, types = constant["names"][0], constant["types"]
    if types[0] != types[1]:
        return f"{name}: {types[0]} → {types[1]}"
    if "differing" not in constant:
        return f"{name}: other values"
    if not constant["differing"]:
        return f"{name}: other bits, equal values"
    return f"{name}: {constant['differing']} of {constant['elements']} differ, by up to {constant['largest']:.2g}"


def _some(texts: Sequence[str], between: str = ", ") -> str:
    """Return the first texts, and how many more there are."""
    more = [f"{len(texts) - MOST} more"] if len(texts) > MOST else []
    return between.join([*texts[:MOST], *more])


def _drawing(found: GraphDifference, sides: tuple[list[ir.Node], list[ir.Node]], match: Matching) -> dict[str, Any]:
    """Draw both sides of a difference; where one has none of its nodes, what stands around the others' place."""
    changed = ({change.old for change in found.changes}, {change.new for change in found.changes})
    drawings = []
    for side, twins in ((0, match.partners), (1, match.pairs)):
        subgraph = Neighbourhood()
        for node in sides[side]:
            subgraph.add([node], "changed" if node in changed[side] else "only")
        beside = [near for node in sides[1 - side] for near in (*feeding(node), *reading(node))]
        subgraph.add((twins[near] for near in beside if near in twins), "context")
        add_context(subgraph)
        drawings.append(to_json(subgraph))
    return {"before": drawings[0], "after": drawings[1]}
