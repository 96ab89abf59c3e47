"""The rewrites, and the order in which they are tried until none finds anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import RESHAPING, STATES
from bnfold.edits.edit import StoreConstant
from bnfold.errors import BnfoldError
from bnfold.report.events import Report
from bnfold.semantics.neutral import OPERATORS
from bnfold.simplifying import unread
from bnfold.simplifying.around import after, before
from bnfold.simplifying.branches import Decide, find_decided
from bnfold.simplifying.casting import find_cast, find_cast_like
from bnfold.simplifying.clipping import BOUNDING, find_bounds
from bnfold.simplifying.computed import find_computed
from bnfold.simplifying.editor import Editor
from bnfold.simplifying.equal import find_equal
from bnfold.simplifying.expanding import find_broadcast
from bnfold.simplifying.group_norm import find_group_norm
from bnfold.simplifying.in_a_row import find_axes, find_joined, find_stacked
from bnfold.simplifying.inlining import Moved
from bnfold.simplifying.no_effect import (
    find_alone,
    find_chosen,
    find_concat,
    find_dropout,
    find_expand,
    find_identity,
    find_neutral,
    find_pad,
    find_tile,
)
from bnfold.simplifying.padding import PADDED, find_padding
from bnfold.simplifying.picking import find_picked
from bnfold.simplifying.plan import Simplification
from bnfold.simplifying.products import find_addition, find_product_of_reshaped
from bnfold.simplifying.reshaping import find_reduction, find_reshaping, find_target, learn_target
from bnfold.simplifying.slicing import find_slice
from bnfold.simplifying.states import find_states
from bnfold.simplifying.transposing import find_joined_axes, find_transpose

Finder = Callable[[ir.Node, Proven], Simplification | None]


_OPERATORS: Sequence[tuple[Finder, Collection[str]]] = (
    (find_identity, ("Identity",)),
    (find_dropout, ("Dropout",)),
    (find_cast, ("Cast",)),
    (find_cast_like, ("CastLike",)),
    (find_concat, ("Concat",)),
    (find_joined, ("Concat",)),
    (find_stacked, ("Concat",)),
    (find_padding, PADDED),
    (find_slice, ("Slice",)),
    (find_pad, ("Pad",)),
    (find_expand, ("Expand",)),
    (find_tile, ("Tile",)),
    (find_chosen, ("Where",)),
    (find_states, STATES),
    (find_neutral, OPERATORS),
    (find_addition, ("Add",)),
    (find_bounds, BOUNDING),
    (find_alone, ("Sum", "Mean", "Split")),
    (find_transpose, ("Transpose",)),
    (find_reshaping, RESHAPING | {"Transpose"}),
    (find_target, ("Reshape",)),
    (find_joined_axes, RESHAPING),
    (find_product_of_reshaped, RESHAPING),
    (find_reduction, ("Squeeze", "Unsqueeze")),
    (find_axes, ("Squeeze", "Unsqueeze")),
    (find_picked, ("Squeeze", "Unsqueeze")),
)
"""The operators of each finder; finders of one operator are tried in this order."""
FINDERS: Mapping[str, tuple[Finder, ...]] = {
    op_type: tuple(finder for finder, op_types in _OPERATORS if op_type in op_types)
    for op_type in {op_type for _, op_types in _OPERATORS for op_type in op_types}
}
"""The finders that are tried on a node, by its operator, until one has a plan."""
MAX_ROUNDS = 8
"""Each round sees what the one before left; three are what real models need."""
MAX_INFERENCES = 8
"""Stored sizes let inference follow shapes further; two are what real models need."""
MAX_DECISIONS = 8
"""Each round of decisions lets inference follow shapes into what was a branch."""


class Simplified(NamedTuple):
    """Whether anything changed, whether a value became an initializer, and where values of branches are now."""

    has_changed: bool
    has_stored: bool
    moved: list[Moved]


def decide_branches(model: ir.Model, report: Report, disabled: frozenset[str]) -> Simplified:
    """Do as `bnfold.simplifying.decide`."""
    editor = Editor(model, disabled)
    if not model.proto.training_info:
        _decided(model, editor)
        model.remove_dead_nodes()
    return _reported(editor, report)


def _decided(model: ir.Model, editor: Editor) -> Proven:
    """Decide every If that can be decided; return what is proven afterwards."""
    known = Proven(model)
    for _ in range(MAX_DECISIONS):
        plans = find_decided(model, known)
        if not plans:
            break
        for plan in plans:
            editor.decide(plan)
        known = Proven(model)
    return known


def _reported(editor: Editor, report: Report) -> Simplified:
    report.simplified += editor.events
    report.drop_cuts(editor.touched)
    return Simplified(bool(editor.events), editor.has_stored, editor.moved)


def simplify_all(
    model: ir.Model, report: Report, *, group_norm: bool, disabled: frozenset[str], most: int | None
) -> Simplified:
    """Do as `bnfold.simplifying.simplify`."""
    editor = Editor(model, disabled, most=most)
    _repeat(model, editor, {**FINDERS, "Add": (find_group_norm, *FINDERS["Add"])} if group_norm else FINDERS)
    return _reported(editor, report)


def clear_nodes(
    model: ir.Model,
    report: Report,
    places: Collection[tuple[str, str]],
    disabled: frozenset[str],
    most: int | None,
) -> Simplified:
    """Do as `bnfold.simplifying.clear`."""
    nodes = {node for node in model.nodes() if any((node.graph.path, made) in places for made in _names(node))}
    has_removed = unread.remove(model, report, disabled, after(nodes))
    editor = Editor(model, disabled, partial(_helps, nodes=nodes, read=before(nodes)), most)
    _repeat(model, editor, FINDERS)
    done = _reported(editor, report)
    return done._replace(has_changed=done.has_changed or has_removed)


def _names(node: ir.Node) -> list[str]:
    return [value.name for value in node.outputs if value is not None][:1]


def _helps(plan: Simplification | Decide, nodes: AbstractSet[ir.Node], read: AbstractSet[ir.Node]) -> bool:
    """Whether a plan changes one of these nodes, or the graph around it, or stores what it ``read``s or makes."""
    if isinstance(plan, Decide):
        inner = (node for body in plan.node.bodies for graph in body.subgraphs() for node in graph.nodes)
        return plan.node in nodes or any(node in nodes for node in inner)
    edit = plan.edit
    if edit.node in nodes:
        return True
    return isinstance(edit, StoreConstant) and (edit.node in read or not nodes.isdisjoint(before([edit.node])))


def _repeat(model: ir.Model, editor: Editor, finders: Mapping[str, tuple[Finder, ...]]) -> None:
    """Infer shapes and rewrite, until nothing changes any more."""
    if model.proto.training_info:
        return
    for _ in range(MAX_INFERENCES):
        events, sizes, rounds = len(editor.events), editor.sizes, 0
        known = _decided(model, editor)
        while rounds < MAX_ROUNDS and _round(model, known, editor, finders):
            rounds += 1
        follows = editor.sizes > sizes or any(node.is_op("Shape") for node in model.graph.nodes)
        if len(editor.events) == events or not follows:
            break


def _round(model: ir.Model, known: Proven, editor: Editor, finders: Mapping[str, tuple[Finder, ...]]) -> bool:
    """Try every rewrite on every node once; whether any changed something, or may find more now."""
    events, could_grow, fits = len(editor.events), editor.can_grow, True
    editor.measure()
    for graph in [*model.graphs()]:
        stored, all_fit = find_computed(graph, known, editor.budget, editor.disabled, can_grow=could_grow)
        fits &= all_fit
        for constant in stored:
            editor.carry_out(constant)
    model.remove_dead_nodes()
    for graph in [*model.graphs()]:
        first: dict[Hashable, ir.Node] = {}
        for node in graph.nodes:
            if node.removed:
                continue
            plan = _plan(node, known, first, finders)
            if plan is not None:
                editor.carry_out(plan)
    model.remove_dead_nodes()
    editor.can_grow = True
    return len(editor.events) > events or (not could_grow and (not fits or known.has_learned))


def _plan(
    node: ir.Node, known: Proven, first: dict[Hashable, ir.Node], finders: Mapping[str, tuple[Finder, ...]]
) -> Simplification | None:
    if (node.domain and not _has_states(node)) or node.has_references or known.calls(node):
        return None
    try:
        if node.is_op("Reshape"):
            learn_target(node, known)
        tried: tuple[Finder, ...] = (*finders.get(node.op_type, ()), *(() if node.domain else (find_broadcast,)))
        for finder in tried:
            if (plan := finder(node, known)) is not None:
                return plan
        return None if node.domain else find_equal(node, first)
    except BnfoldError:  # an attribute of a type that the operator never had
        return None


def _has_states(node: ir.Node) -> bool:
    return node.is_known and node.op_type in STATES
