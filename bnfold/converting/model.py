"""The upgrade of one model, from the first look to the last field written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.disputed import may_be_unsure
from bnfold.analysis.shapes.inference import may_be_misstated
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting import imports
from bnfold.converting.context import ConversionContext
from bnfold.converting.given import GivenModel
from bnfold.converting.ir_version import FUNCTIONS_SINCE, SPARSE_SINCE, Wanted, ir_version_of, write_ir_version
from bnfold.converting.machine_learning import convert_domain
from bnfold.converting.node_conversion import FORM, NodeConversion, is_of_target
from bnfold.converting.registered import convert_domains
from bnfold.converting.walk import Blocker, GraphConverter, NodeChange, OperatorChange
from bnfold.errors import ConversionBlocked
from bnfold.ir import sparse
from bnfold.ir.ordering import sort_nodes
from bnfold.ir.value import shape_of
from bnfold.semantics import Policy, Repair


class Converted(NamedTuple):
    """What an upgrade did.

    Attributes:
        before: Opset of the model as it came.
        after: Opset now.
        changes: The rewritten nodes, in order.
        repairs: Everything that was decided or corrected rather than read.
        passed: Unknown operators, with their number: left as they were.
        training: Labels of the BatchNormalizations that stay in training mode.
        operators: What became of the nodes of each operator.
        note: What the caller should know; may be empty.
    """

    before: int
    after: int
    changes: tuple[NodeChange, ...]
    repairs: tuple[Repair, ...]
    passed: dict[str, int]
    training: tuple[str, ...]
    operators: tuple[OperatorChange, ...] = ()
    note: str = ""

    @property
    def advice(self) -> str:
        """Advice for a user whose model trains, probably by mistake; empty if none does."""
        if not self.training:
            return ""
        return (
            f"training mode, which uses the statistics of each batch: {', '.join(self.training)}. "
            "If that was not meant, call model.eval() before exporting, or use --force-inference. "
            "For runtimes without training mode, use --decompose remaining"
        )

    @property
    def cuts(self) -> list[ir.Cut]:
        """The boundaries of the rewrites, for local validation."""
        return [change.cut for change in self.changes if change.cut is not None]


def upgrade(
    model: ir.Model,
    target: int | None,
    policy: Policy,
    ir_version: Wanted = "auto",
    ml_opset: int | None = None,
    domain_opsets: Mapping[str, int] | None = None,
    *,
    fail_fast: bool = False,
) -> Converted:
    """Do as `bnfold.converting.convert`."""
    before = model.opset("")
    goal = imports.resolve_target(before, target)
    imports.check_known(model, goal)
    imports.check_complete(model)
    imports.strip_initializer_inputs(model)
    if model.proto.ir_version < 2:
        imports.state_attribute_types(model)
    # An opset that is asked for is what a runtime stops at, and the runtime may read no newer IR version either.
    follows = target is not None and ir_version == "auto"
    wanted = ir_version_of(goal) if follows else ir_version
    repairs = imports.drop_unread_imports(model)
    if goal < _SPARSE_SINCE or (isinstance(wanted, int) and wanted < SPARSE_SINCE):
        repairs += store_sparse(model)
    if model.proto.functions:
        from bnfold.converting.functions import inline_dependent

        repairs += inline_dependent(model, goal, partial(_convert_body, policy), wanted)
    functions = frozenset((function.domain, function.name) for function in model.proto.functions)
    calls = (node for node in model.graph.nodes if (node.domain, node.op_type) in functions)
    is_called = any(value is not None and value.dtype is None for call in calls for value in call.outputs)
    given = GivenModel(model) if goal < before else None
    if is_called or (may_be_misstated(model) if given is not None else any(map(may_be_unsure, model.nodes()))):
        # The type rules of single operators do not cover calls, and annotations may be wrong.
        disputed = analysis.infer_shapes(model)
        repairs = [*repairs, *_drop_false_ranks(model)]
        recall = None
    else:  # what follows a node that cannot be lowered has to be known too
        disputed, recall = frozenset(), given.tell_types if given is not None else None
    context = ConversionContext(goal, policy, Types(goal, recall), given=given, disputed=disputed, lower=_lower)
    walk = GraphConverter(context, functions, fail_fast=fail_fast)
    for graph in (model.graph, *model.functions):
        if graph is model.graph or _uses_default_domain(graph):
            walk.graph(graph)
    note = convert_domain(walk, model, ml_opset)
    convert_domains(walk, model, domain_opsets or {})
    if walk.blockers:
        raise ConversionBlocked(_message(walk.blockers, before, goal), [*map(str, walk.blockers)], walk.places)
    walk.context.drop_replaced()
    if [graph for graph in (model.graph, *model.functions) if sort_nodes(graph)]:
        repairs = [*repairs, Repair("unsorted", "", "nodes stood before what they read: they are in order now")]
    imports.write_opset(model, goal)
    write_ir_version(model, goal, lower=follows)
    return Converted(
        before=before,
        after=goal,
        changes=tuple(walk.changes),
        repairs=(*repairs, *walk.context.repairs),
        passed=walk.passed,
        training=tuple(walk.context.training),
        operators=walk.operators(),
        note=note,
    )


def _lower(conversion: NodeConversion, added: ir.Node) -> None:
    """Lower what an adapter has added, if it has another form at the target."""
    if conversion.target < FORM and (added.subgraphs or not is_of_target(added.op_type, FORM, conversion.target)):
        from bnfold.converting.downgrade import lower_added

        lower_added(conversion, added)


def _convert_body(policy: Policy, body: ir.Model, opset: int) -> None:
    """Bring the body of a function to an opset, with the functions that it calls inlined."""
    upgrade(body, opset, policy, FUNCTIONS_SINCE - 1)


_SPARSE_SINCE = 11
"""The opset that sparse tensors came with."""


def store_sparse(model: ir.Model) -> list[Repair]:
    """Store sparse initializers with their zeros. Nodes of the model are other objects afterwards."""
    stored = sparse.store_dense(model)
    text = f"sparse weights are stored with their zeros: {', '.join(stored)}"
    return [Repair("sparse-weights", "", text)] if stored else []


def _drop_false_ranks(model: ir.Model) -> list[Repair]:
    """Drop declarations of inner values that say another rank than inference found; runtimes would believe them."""
    repairs = []
    for graph in model.graphs():
        for info in getattr(graph.proto, "value_info", ()):
            declared, value = shape_of(info.type), graph.values.get(info.name)
            found = None if value is None else value.shape
            if value is None or declared is None or found is None or len(declared) == len(found):
                continue
            kind = graph.types[info.name]
            graph.forget_type(value)
            graph.types[info.name] = kind
            text = (
                f"{info.name!r} is declared with {len(declared)} axes and has {len(found)}: the declaration is dropped"
            )
            label = info.name if value.producer is None else value.producer.label
            repairs.append(Repair("false-rank", label, text))
    return repairs


def _uses_default_domain(graph: ir.Graph) -> bool:
    if not isinstance(graph.proto, onnx.FunctionProto):
        return True
    return any(entry.domain in imports.SPELLINGS for entry in graph.proto.opset_import)


_NAMED = 3
"""Nodes of one kind that the message names; the error's ``blockers`` have all."""


def _message(blockers: Sequence[Blocker], before: int, target: int) -> str:
    """Say in one line what is in the way: a part for each operator."""
    operators: dict[str, list[Blocker]] = {}
    for blocker in blockers:
        operators.setdefault(blocker.op_type, []).append(blocker)
    parts = []
    for op_type, found in operators.items():
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        count = f"{len(found)} {op_type}" if len(found) > 1 else op_type
        others = len({blocker.why for blocker in found}) - 1
        also = f" (and {others} other reason{'s' * (others > 1)})" if others else ""
        nodes = ", ".join(blocker.node for blocker in found[:_NAMED])
        parts.append(f"{count} ({nodes}{more}): {found[0].why}{also}")
    what = f" opset {before} to {target}" if before != target else ""
    return f"cannot convert{what}: {'; '.join(parts)}"
